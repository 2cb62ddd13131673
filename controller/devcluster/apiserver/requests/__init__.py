"""Answers a request for a resource, by its verb."""
