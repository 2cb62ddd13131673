"""Transports to a dashboard: directly over HTTP, or through the API server."""
