"""Probes, which are sent again and again, and their observations."""
