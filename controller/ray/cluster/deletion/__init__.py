"""The deletion of a cluster whose state is in Redis."""
