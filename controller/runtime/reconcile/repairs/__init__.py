"""Repairs of objects and fields on which another writer disagrees."""
