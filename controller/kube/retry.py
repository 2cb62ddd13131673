"""When a request may be sent: waiting, the shared pause, and which answers may be repeated.

There is no rate limit. The server says when it has had enough (429, or 503 with `Retry-After`),
and then every request of the client waits, not only the one that was told.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from informers import Clock

MAX_ATTEMPTS = 10
"""Times that one request is sent at most, the first included."""

MAX_PAUSE = 60.0
"""Seconds: the longest `Retry-After` that is believed."""

RESET_DELAY = 1.0
"""Seconds before a read is repeated whose connection broke."""

AMBIGUOUS_REASONS = frozenset({"Timeout", "ServerTimeout"})
"""Reasons of a Status after which a write may nevertheless have been carried out."""


async def sleep_until(clock: Clock, when: float) -> None:
    """Wait until `clock` shows `when`; returns at once if it already does."""
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
    """A moment before which nobody sends: the latest that any answer asked for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end = clock.time()

    @property
    def end(self) -> float:
        """Clock time at which the pause is over; in the past if there is none."""
        return self._end

    @property
    def remaining(self) -> float:
        """Seconds to wait, 0 if none."""
        return max(0.0, self._end - self._clock.time())

    def extend(self, seconds: float) -> None:
        """Pause for `seconds` from now, at most `MAX_PAUSE`; never shortens a running pause."""
        self._end = max(self._end, self._clock.time() + min(seconds, MAX_PAUSE))

    async def wait(self) -> None:
        """Wait until the pause is over, including what is added meanwhile."""
        while self.remaining:
            await sleep_until(self._clock, self._end)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait; None if it did not say, or not in whole seconds."""
    value = headers.get("retry-after", "").strip()
    return float(value) if value.isascii() and value.isdigit() else None


def applies_to_all_requests(status: int) -> bool:
    """Whether a `Retry-After` with this status is about the server, not about the request."""
    return status in {429, 503}


def is_retryable(method: str, status: int, reason: str) -> bool:
    """Whether a request that got this answer *with* `Retry-After` may be sent again.

    Reads always may. A write only if the server says that it did nothing: a time-out behind the
    API server (504, or a Status with reason Timeout or ServerTimeout) does not say that.
    """
    if status != 429 and status < 500:
        return False
    return method == "GET" or (status != 504 and reason not in AMBIGUOUS_REASONS)
