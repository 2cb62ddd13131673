"""Errors that end `manta rollout` with exit status 1."""

from __future__ import annotations


class RolloutError(Exception):
    """The message says what is wrong and what to do next."""
