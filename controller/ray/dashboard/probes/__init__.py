"""Probes, which are sent periodically, and their observations."""
