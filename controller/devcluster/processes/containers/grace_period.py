"""Grace periods, and waits with a time limit."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

RECHECK_SECONDS = 10.0
"""Seconds until a missing object is read again, if no event announces it."""


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Wait for `event`, for at most `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class GracePeriod:
    """A deadline that may be shortened.

    Args:
        seconds: seconds from now.
    """

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + seconds
        self._shortened = asyncio.Event()

    @property
    def remaining(self) -> float:
        """Remaining seconds, 0 if it is over."""
        return max(0.0, self._end - self._loop.time())

    def shorten(self, seconds: float) -> None:
        """End in at most `seconds` from now."""
        end = self._loop.time() + seconds
        if end < self._end:
            self._end = end
            self._shortened.set()

    async def passes_before(self, awaited: asyncio.Future[Any], *, least: float = 0.0) -> bool:
        """Wait for `awaited` or the end; return whether the end came first.

        `least` seconds are waited for in any case, unless the time is shortened.
        """
        extra = max(0.0, least - self.remaining)
        while not awaited.done():
            left = self.remaining + extra
            if left <= 0:
                return True
            self._shortened.clear()
            moved = asyncio.ensure_future(self._shortened.wait())
            try:
                await asyncio.wait(
                    {awaited, moved}, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                if moved.done():
                    extra = 0.0
            finally:
                moved.cancel()
            if not awaited.done() and not self.remaining:
                return True
        return False
