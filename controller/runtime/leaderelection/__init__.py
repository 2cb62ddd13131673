"""Who of several operators may write."""
