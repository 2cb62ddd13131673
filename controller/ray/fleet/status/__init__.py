"""Reports about a fleet: conditions, counts and metrics."""
