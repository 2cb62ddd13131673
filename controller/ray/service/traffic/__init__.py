"""Routes requests to the serving cluster."""
