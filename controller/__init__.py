"""Manta: a Kubernetes operator for Ray.

`kube` speaks to the API server, `runtime` turns plans into writes, `ray` decides what a
Ray cluster needs, `devcluster` is a Kubernetes for one process, `__main__` is the command.
"""

__version__ = "0.1.0"
