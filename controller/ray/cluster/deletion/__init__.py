"""The deletion of a cluster whose state lies in Redis."""
