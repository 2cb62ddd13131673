"""Doubts about deletions of pods: how they are explained, and how a user confirms them."""
