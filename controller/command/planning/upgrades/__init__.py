"""Upgrades in plans: their steps in order, and the peak of resources."""
