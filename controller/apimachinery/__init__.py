"""Basics that kinds of all API groups share: conditions, patches, quantities, ownership; no I/O."""
