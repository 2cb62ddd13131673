"""What a dashboard is told to do once, and how that ends."""
