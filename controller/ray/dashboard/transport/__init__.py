"""The ways to a dashboard: straight over HTTP, or through the API server."""
