"""Reads that include the process's own writes: the overlay and its barrier."""
