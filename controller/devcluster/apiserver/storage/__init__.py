"""Stored objects: their transitions, watches, lists and deletion."""
