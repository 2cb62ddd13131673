"""Parses values of single fields and annotations that users write."""
