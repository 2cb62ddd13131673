"""Ways to isolate pods from one another on one machine."""
