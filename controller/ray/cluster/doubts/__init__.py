"""Doubts about deletions of pods: what explains them, and how a person confirms them."""
