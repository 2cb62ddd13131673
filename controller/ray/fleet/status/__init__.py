"""What a fleet reports: conditions, counts and metrics."""
