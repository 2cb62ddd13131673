"""The wall clock, read here and passed to everything below as a parameter."""

from __future__ import annotations

from datetime import UTC, datetime


def wall() -> datetime:
    """Return the time of day, UTC."""
    return datetime.now(UTC)
