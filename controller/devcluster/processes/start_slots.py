"""Limits the number of containers that start at the same time on this machine.

Programs as large as Ray need a whole CPU to start. When many start together, each takes so long
that it gives up, is started again and delays the others, so that none becomes ready.
"""

from __future__ import annotations

import asyncio
import os


class StartSlots:
    """Permits to start, each held until the container is ready, ends, or has had its time.

    Args:
        count: number of permits; 0 for one for each CPU.
        seconds: maximum time for which one is held.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self._free = asyncio.Semaphore(count or os.cpu_count() or 1)
        self._seconds = seconds

    async def take(self) -> StartSlot:
        """Wait for a permit, in the order of the calls."""
        await self._free.acquire()
        return StartSlot(self._free, self._seconds)


class StartSlot:
    """A permit that is held until it is released or its time is over.

    Args:
        free: semaphore that is released once.
        seconds: seconds until it is released in any case.
    """

    def __init__(self, free: asyncio.Semaphore, seconds: float) -> None:
        self._free = free
        self._timer = asyncio.get_running_loop().call_later(seconds, self.release)
        self._is_held = True

    def release(self) -> None:
        """Let the next container start; may be called again."""
        if self._is_held:
            self._is_held = False
            self._timer.cancel()
            self._free.release()
