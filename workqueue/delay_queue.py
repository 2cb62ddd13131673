"""Keys that wait for their time, and the one timer that watches over them all.

A timer for every key would cost the event loop a heap of its own; only the earliest matters, so
only the earliest has one (WQ-18).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from workqueue.heap import KeyHeap

if TYPE_CHECKING:
    from collections.abc import Callable

    from workqueue.clock import Clock, TimerHandle

K = TypeVar("K", bound=Hashable)

LONGEST_DELAY = 180 * 24 * 3600.0
"""Seconds. Half a year stands for "never" and cannot overflow a timer (WQ-19)."""

_LONGEST_TIMER = 3600.0  # seconds: a loop takes none of days; an early look costs nothing


class DelayQueue(Generic[K]):
    """Hands each key to `release`, with the time at which it was due, no earlier than then."""

    def __init__(self, clock: Clock, release: Callable[[K, float], None]) -> None:
        self._clock = clock
        self._release = release
        self._waiting: KeyHeap[K] = KeyHeap()
        self._timer: TimerHandle | None = None
        self._timer_at = math.inf

    def __len__(self) -> int:
        """Return how many keys wait."""
        return len(self._waiting)

    def __contains__(self, key: K) -> bool:
        """Return whether `key` waits."""
        return key in self._waiting

    def due(self, key: K) -> float:
        """Return the time at which `key` will be released.

        Raises:
            KeyError: it does not wait.
        """
        return self._waiting.rank(key)

    def set(self, key: K, when: float) -> None:
        """Release `key` at `when`, whatever was asked before."""
        self._waiting.push(key, when)
        self._rearm()

    def discard(self, key: K) -> None:
        """Do not release `key`."""
        if key in self._waiting:
            self._waiting.discard(key)
            self._rearm()

    def clear(self) -> None:
        """Release nothing, and leave no timer behind."""
        self._waiting.clear()
        self._rearm()

    def _rearm(self) -> None:
        """Have a timer no later than the head.

        One that is too early may stay: it will find nothing due and call this method again. So a
        key that is asked for later and later, or withdrawn, does not cost a timer each time.
        """
        if not self._waiting:
            self._disarm()
            return
        head = self._waiting.lowest()
        if self._timer is None or self._timer_at > head:
            self._disarm()
            self._timer_at = min(head, self._clock.time() + _LONGEST_TIMER)
            self._timer = self._clock.call_at(self._timer_at, self._ring)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        # A loop calls as much as a tick of its clock too early. Judged by the clock alone, the
        # head would not be due, be armed again, ring at once, and so on: a busy loop.
        now = max(self._clock.time(), self._timer_at)
        while self._waiting and self._waiting.lowest() <= now:
            due = self._waiting.lowest()
            self._release(self._waiting.pop(), due)
        self._rearm()
