"""A manual clock, and a tolerant comparison for the clock of the virtual loop."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

import pytest

from workqueue import WorkQueue

K = TypeVar("K", bound=Hashable)


def about(seconds: float) -> object:
    """Equals a time of the virtual loop to within a few microseconds."""
    return pytest.approx(seconds, abs=1e-5)


@dataclass(order=True)
class FakeTimer:
    when: float
    number: int
    callback: Callable[[], object] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """Keeps every timer in `timers`. `early`: seconds by which timers fire too early."""

    def __init__(self, early: float = 0.0) -> None:
        self.now = 1000.0
        self.timers: list[FakeTimer] = []
        self._early = early
        self._heap: list[FakeTimer] = []
        self._numbers = count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object], /) -> FakeTimer:
        timer = FakeTimer(when, next(self._numbers), callback)
        self.timers.append(timer)
        heapq.heappush(self._heap, timer)
        return timer

    @property
    def armed(self) -> list[float]:
        """The times of the timers that were neither called nor cancelled."""
        return sorted(timer.when for timer in self._heap if not timer.cancelled)

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._heap and self._heap[0].when <= end:
            timer = heapq.heappop(self._heap)
            if not timer.cancelled:
                self.now = max(self.now, timer.when - self._early)
                timer.callback()
        self.now = end


@asynccontextmanager
async def taken(queue: WorkQueue[K]) -> AsyncIterator[K]:
    """Hold a key for the duration of a block, as a worker does."""
    key = await queue.get()
    try:
        yield key
    finally:
        queue.done(key)
