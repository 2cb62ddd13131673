"""What is said of a cluster: status, conditions, first causes, events and metrics."""
