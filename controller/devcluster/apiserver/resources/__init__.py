"""Served resources: their table, their fields of scale, and the behaviour of their kinds."""
