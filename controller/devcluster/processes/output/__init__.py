"""The output of containers on disk, and the logs that are read from it."""
