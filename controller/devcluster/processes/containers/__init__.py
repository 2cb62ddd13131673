"""Containers: the runs of each, with probes, hooks, restarts and grace periods."""
