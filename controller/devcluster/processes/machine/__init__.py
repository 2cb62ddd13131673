"""The resources of this machine that a cluster holds: directories, sandboxes, processes."""
