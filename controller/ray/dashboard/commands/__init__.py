"""Commands, which a dashboard executes once, and their outcomes."""
