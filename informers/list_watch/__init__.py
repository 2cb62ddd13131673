"""Keeping a copy equal to a collection by list and watch: the reflector and its parts."""
