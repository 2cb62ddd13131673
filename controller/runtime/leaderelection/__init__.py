"""Decides which of several operators may write."""
