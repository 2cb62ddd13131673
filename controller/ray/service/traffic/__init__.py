"""The way of requests to the cluster that serves."""
