"""Parts of the observation of a cluster, and of the memory of its plans."""
