"""Slots for writes, which owners get in turn: no cluster's queue is another one's delay.

A plain semaphore is first come, first served: whoever asks for 64 creates makes everybody else
wait until they are done. Here a slot that comes free goes to the owner that has waited longest
for a turn, and to that owner's next write only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Turns:
    """A bounded number of slots. Each of n owners that wait gets every n-th that comes free.

    Args:
        slots: how many may be held at the same time.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the next owner first

    @asynccontextmanager
    async def take(self, owner: str) -> AsyncGenerator[None]:
        """Hold a slot for the length of a block, on behalf of `owner`."""
        await self._acquire(owner)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, owner: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._release()  # it was given while we were being cancelled
            raise

    def _release(self) -> None:
        while self._waiting:
            owner, turns = next(iter(self._waiting.items()))
            del self._waiting[owner]
            turn = turns.popleft()
            if turns:
                self._waiting[owner] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
