"""Retry rules: the pause shared by all requests, and which requests may be sent again.

There is no client-side rate limit. When the server is overloaded it answers 429, or 503 with
`Retry-After`; then every request of the client waits, not only the rejected one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from informers import Clock

MAX_ATTEMPTS = 10
"""Maximum number of attempts of one request, including the first."""

MAX_PAUSE = 60.0
"""Seconds: a longer `Retry-After` is cut to this."""

RESET_DELAY = 1.0
"""Seconds before a read is retried after its connection broke."""

AMBIGUOUS_REASONS = frozenset({"Timeout", "ServerTimeout"})
"""Reasons of a Status after which a write may nevertheless have been executed."""


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


class Pause:
    """The time until which no request is sent: the latest that any response demanded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end = clock.time()

    @property
    def end(self) -> float:
        """Clock time at which the pause ends; in the past if there is none."""
        return self._end

    @property
    def remaining(self) -> float:
        """Seconds to wait, 0 if none."""
        return max(0.0, self._end - self._clock.time())

    def extend(self, seconds: float) -> None:
        """Pause for `seconds` from now, at most `MAX_PAUSE`; never shortens a running pause."""
        self._end = max(self._end, self._clock.time() + min(seconds, MAX_PAUSE))

    async def wait(self) -> None:
        """Wait until the pause ends, including extensions made meanwhile."""
        while self.remaining:
            await sleep_until(self._clock, self._end)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return `Retry-After` in seconds, None if it is absent or not a whole number."""
    value = headers.get("retry-after", "").strip()
    return float(value) if value.isascii() and value.isdigit() else None


def applies_to_all_requests(status: int) -> bool:
    """Return whether a `Retry-After` with this status applies to all requests of the client."""
    return status in {429, 503}


def is_retryable(method: str, status: int, reason: str) -> bool:
    """Return whether a request may be sent again after this response with `Retry-After`.

    Reads always may. A write may only if the server certainly did nothing, which a time-out
    behind the API server (504, or reason Timeout or ServerTimeout) leaves open.
    """
    if status != 429 and status < 500:
        return False
    return method == "GET" or (status != 504 and reason not in AMBIGUOUS_REASONS)
