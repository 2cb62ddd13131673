"""Schemas: in definitions, as servers publish them, and the fields unknown to them."""
