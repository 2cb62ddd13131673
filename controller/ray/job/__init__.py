"""The RayJob controller: runs a job on a cluster of its own, once or several times."""
