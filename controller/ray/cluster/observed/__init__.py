"""Parts of the observation of a cluster, and of what one plan remembers for the next."""
