"""What one attempt of a RayJob consists of: its names, its cluster, its head service."""
