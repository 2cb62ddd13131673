"""Builds the object that a create or an update stores."""
