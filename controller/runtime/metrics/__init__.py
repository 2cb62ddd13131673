"""Metrics: their definitions, the monitor of the event loop, and the page that Prometheus reads."""
