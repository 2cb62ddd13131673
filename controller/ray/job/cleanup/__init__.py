"""Deletions after a RayJob has ended, and the finalizer of a deleted RayJob."""
