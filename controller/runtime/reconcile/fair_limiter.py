"""Limits concurrent writes fairly: an owner with many writes does not delay one with few.

A plain semaphore is first come, first served, so that 64 creates of one owner delay all others.
Here an owner holds at most a share of the slots, because requests in flight queue up again inside
the API server. Some slots are reserved for owners that hold few. A slot that becomes free goes to
the owner that has waited longest, for its next write only.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

RESERVED_BELOW = 4
"""An owner that holds fewer slots than this may take one of the reserve."""

MAX_SHARE = 5
"""An owner holds at most one slot in this many; one in this many is reserved.

Of the 80 slots that a client has by default, 16 keep an API server on two cores as busy as 64 do,
and delay other owners a third as much. With 20 ms of latency they create 800 pods a second.
"""


class FairLimiter:
    """A bounded number of slots. Of n waiting owners, each gets every n-th slot that is released.

    Args:
        slots: how many may be held at the same time.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._share = slots // MAX_SHARE
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the next owner first

    @asynccontextmanager
    async def take(self, owner: str) -> AsyncGenerator[None]:
        """Hold a slot for the duration of a block, on behalf of `owner`."""
        await self._acquire(owner)
        try:
            yield
        finally:
            self._release(owner)

    async def _acquire(self, owner: str) -> None:
        if owner not in self._waiting and self._may_take(owner):
            self._grant(owner)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._release(owner)  # granted while this task was being cancelled
            raise

    def _release(self, owner: str) -> None:
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        while (following := next(filter(self._may_take, self._waiting), None)) is not None:
            self._serve(following)

    def _serve(self, owner: str) -> None:
        """Grant `owner` a slot, and move it behind all others if it waits for more."""
        turns = self._waiting.pop(owner)
        turn = turns.popleft()
        if turns:
            self._waiting[owner] = turns
        if not turn.done():
            self._grant(owner)
            turn.set_result(None)

    def _grant(self, owner: str) -> None:
        self._free -= 1
        self._held[owner] += 1

    def _may_take(self, owner: str) -> bool:
        held = self._held[owner]
        if held < RESERVED_BELOW:
            return self._free > 0
        return held < self._share and self._free > self._share
