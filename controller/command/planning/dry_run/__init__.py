"""Dry runs: kinds reconcile the objects of a snapshot, and the net changes are compared."""
