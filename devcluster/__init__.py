"""A Kubernetes for one process: an API server and the controllers that make pods live."""
