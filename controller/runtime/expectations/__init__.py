"""Reads that include the process's own writes: the overlay, its resolver and its barrier."""
