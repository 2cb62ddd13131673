"""What a dashboard is asked again and again, and what it has said."""
