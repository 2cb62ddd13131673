"""Ray's HTTP API, typed."""
