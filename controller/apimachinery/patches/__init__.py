"""Applies and computes JSON patches and JSON merge patches."""
