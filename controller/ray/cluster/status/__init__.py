"""Reports about a cluster: status, conditions, first causes, events and metrics."""
