"""Commands, which a dashboard gets once, and their outcomes."""
