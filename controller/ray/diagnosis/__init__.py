"""Finds out why an object is not ready, from its pods, their containers and failed writes."""
