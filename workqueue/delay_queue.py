"""Delays keys until a given time, with a single timer.

A timer for every key would fill the heap of the event loop; only the earliest key needs one
(WQ-18).
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
"""Seconds. Half a year is as good as "never" and cannot overflow a timer (WQ-19)."""

_LONGEST_TIMER = (
    3600.0  # seconds: event loops reject timers of many days; waking up early is harmless
)


class DelayQueue(Generic[K]):
    """Delays and deduplicates keys.

    Each key is passed to `release`, with its due time, when that time has come.
    """

    def __init__(self, clock: Clock, release: Callable[[K, float], None]) -> None:
        self._clock = clock
        self._release = release
        self._waiting: KeyHeap[K] = KeyHeap()
        self._timer: TimerHandle | None = None
        self._timer_at = math.inf

    def __len__(self) -> int:
        """Return the number of delayed keys."""
        return len(self._waiting)

    def __contains__(self, key: K) -> bool:
        """Return whether `key` is delayed."""
        return key in self._waiting

    def due(self, key: K) -> float:
        """Return the time at which `key` will be released.

        Raises:
            KeyError: the key is not delayed.
        """
        return self._waiting.rank(key)

    def set(self, key: K, when: float) -> None:
        """Release `key` at `when`, which replaces an earlier time."""
        self._waiting.push(key, when)
        self._rearm()

    def discard(self, key: K) -> None:
        """Remove `key` if it is delayed."""
        if key in self._waiting:
            self._waiting.discard(key)
            self._rearm()

    def clear(self) -> None:
        """Remove all keys and the timer."""
        self._waiting.clear()
        self._rearm()

    def _rearm(self) -> None:
        """Ensure that a timer fires no later than the first key is due.

        A timer that is too early may stay: it finds no due key and calls this method again. So
        postponing or removing a key does not create a timer each time.
        """
        if not self._waiting:
            self._disarm()
            return
        head = self._waiting.lowest()
        if self._timer is None or self._timer_at > head:
            self._disarm()
            self._timer_at = min(head, self._clock.time() + _LONGEST_TIMER)
            self._timer = self._clock.call_at(self._timer_at, self._fire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        # A loop may fire a timer up to one tick of its clock early. Compared with the clock alone,
        # the first key would not be due, and the timer would fire again at once: a busy loop.
        now = max(self._clock.time(), self._timer_at)
        while self._waiting and self._waiting.lowest() <= now:
            due = self._waiting.lowest()
            self._release(self._waiting.pop(), due)
        self._rearm()
