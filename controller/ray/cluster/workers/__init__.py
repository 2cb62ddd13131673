"""The workers of a cluster: which are missing, which are deleted, and in which order."""
