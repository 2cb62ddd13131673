"""Basics of every kind of every API group: conditions, patches, quantities, ownership; no I/O."""
