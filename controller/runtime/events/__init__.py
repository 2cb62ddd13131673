"""Kubernetes Events: recorded in the background, aggregated when many are alike."""
