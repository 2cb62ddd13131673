"""Retry rules: which requests may be sent again, and after how many seconds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from informers import Clock

MAX_ATTEMPTS = 10
"""Maximum number of attempts of one request, including the first."""

MAX_RETRY_AFTER = 60.0
"""Maximum seconds of a `Retry-After`; an admission webhook may send any number."""

RESET_DELAY = 1.0
"""Seconds before a read is retried after its connection broke."""

AMBIGUOUS_REASONS = frozenset({"Timeout", "ServerTimeout"})
"""Reasons of a Status after which a write may still have been executed."""


async def sleep_until(clock: Clock, when: float) -> None:
    """Wait until `clock` reaches `when`; return at once if it has."""
    if when <= clock.time():
        return
    woken = asyncio.get_running_loop().create_future()
    timer = clock.call_at(when, _wake, woken)
    try:
        await woken
    finally:
        timer.cancel()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return `Retry-After` in seconds, at most `MAX_RETRY_AFTER`.

    None if it is absent or not a whole number: no API server sends a date or a negative number.
    """
    value = headers.get("retry-after", "").strip()
    return min(float(value), MAX_RETRY_AFTER) if value.isascii() and value.isdigit() else None


def is_retryable(method: str, status: int, reason: str) -> bool:
    """Return whether a request may be sent again after this response with `Retry-After`.

    Reads always may. A write may only if the server certainly did nothing, which a time-out
    behind the API server (504, or reason Timeout or ServerTimeout) leaves open.
    """
    if status != 429 and status < 500:
        return False
    return method == "GET" or (status != 504 and reason not in AMBIGUOUS_REASONS)
