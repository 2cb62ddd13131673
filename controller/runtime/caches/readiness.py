"""Explains why the caches are incomplete or stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.runtime.caches.diagnostics import failing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.runtime.caches.cache import Cache

STALE = 900.0
"""Seconds without data from the server after which a cache makes the process unready: three times
the shortest duration of a watch."""

OVERDUE = 300.0
"""Seconds after which a write that no cache shows makes the process unready (EXP-39). A write of
unknown outcome says nothing about the caches: a webhook may be down."""


def unready(caches: Sequence[Cache], oldest_unseen: float, now: float) -> str | None:
    """Return a sentence about why the caches are incomplete or stale, else None.

    Args:
        caches: all of them.
        oldest_unseen: seconds for which they have not shown one of the process's writes, at most.
        now: monotonic seconds.
    """
    missing = [cache for cache in caches if not cache.informer.has_synced]
    if missing:
        return "; ".join(failing(cache) for cache in missing)
    for cache in caches:
        seen = cache.informer.statistics()
        if seen.last_byte is not None and now - seen.last_byte > STALE:
            silence = f"nothing heard for {now - seen.last_byte:.0f} s"
            return f"{seen.description}: {silence} {seen.last_error}".rstrip()
    if oldest_unseen > OVERDUE:
        return f"an own write has not been seen in the caches for {oldest_unseen:.0f} s"
    return None
