"""Discovery: what the server serves, and the schemas of it."""
