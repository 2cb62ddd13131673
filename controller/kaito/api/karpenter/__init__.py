"""Karpenter's objects, as far as they are read, and the settings of its providers."""
