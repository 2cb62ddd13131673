"""Schemas in definitions and from servers, and the fields that they do not have."""
