"""Isolation of pods from one another on one machine."""
