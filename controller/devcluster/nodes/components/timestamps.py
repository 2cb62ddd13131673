"""RFC 3339 timestamps as Kubernetes writes them: UTC, whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(moment: datetime) -> str:
    """Return `2026-08-20T10:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_since(text: str | None, now: datetime) -> float:
    """Return the seconds from the timestamp `text` to `now`; 0 if there is no timestamp.

    Raises:
        ValueError: `text` is not a timestamp with an offset.
    """
    if not text:
        return 0.0
    return (now - datetime.fromisoformat(text)).total_seconds()
