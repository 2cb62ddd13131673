"""One attempt of a RayJob: its names, cluster, head service, writes and dashboard commands."""
