"""Validation with Kaito's rules and messages."""
