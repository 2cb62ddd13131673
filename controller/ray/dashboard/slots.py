"""Limits the requests to all dashboards together: how many at a time, and how many a second.

A dashboard that accepts connections and never answers holds its slot until the time limit. Heads
whose last request got no response therefore share a quarter of the slots, and heads that were
never asked share a half. A head that has just answered always finds a slot.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections import OrderedDict
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Generic, TypeVar

from informers import Clock

K = TypeVar("K", bound=Hashable)

CLOCK_RESOLUTION = 0.001
"""Seconds by which an event may be handled early.

An event loop calls back up to a tick of its clock early. Without this margin an event that is not
yet due would be scheduled again for the same moment, over and over.
"""


class Responsiveness(Enum):
    """The result of the last request to a dashboard."""

    RESPONSIVE = "responsive"  # there was a response
    UNKNOWN = "unknown"  # there was no request yet
    UNRESPONSIVE = "unresponsive"  # there was no response


_DIVISORS = {
    Responsiveness.RESPONSIVE: 1,
    Responsiveness.UNKNOWN: 2,
    Responsiveness.UNRESPONSIVE: 4,
}
"""Heads of each responsiveness may hold the slots divided by this number."""


class _Lane(Generic[K]):
    """Waiting heads of the same responsiveness, the urgent ones first."""

    def __init__(self) -> None:
        self.urgent: OrderedDict[K, None] = OrderedDict()
        self.ordinary: OrderedDict[K, None] = OrderedDict()
        self.busy = 0

    def __len__(self) -> int:
        return len(self.urgent) + len(self.ordinary)

    def pop(self) -> K:
        queue = self.urgent or self.ordinary
        return queue.popitem(last=False)[0]


class RequestSlots(Generic[K]):
    """Gives slots to waiting heads, taking turns among heads of different responsiveness.

    Args:
        rate: slots given a second.
        burst: slots that may be given ahead of the rate.
        start: called with the head that gets a slot; must not call back before it returns. Returns
            False if the head no longer needs a slot.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        concurrency: int,
        rate: float,
        burst: int,
        start: Callable[[K, Responsiveness], bool],
    ) -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._spacing = 1 / rate
        self._ahead = burst / rate
        self._start = start
        self._lanes: dict[Responsiveness, _Lane[K]] = {each: _Lane() for each in Responsiveness}
        self._scheduled_until = 0.0
        self._timer: TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """The number of heads that wait for a slot."""
        return sum(map(len, self._lanes.values()))

    @property
    def busy(self) -> dict[Responsiveness, int]:
        """The number of slots in use."""
        return {each: lane.busy for each, lane in self._lanes.items()}

    def enqueue(self, head: K, responsiveness: Responsiveness, *, urgent: bool) -> None:
        """Let a head wait for a slot. A waiting head can only become urgent."""
        lane = self._lanes[responsiveness]
        if urgent:
            lane.ordinary.pop(head, None)
            lane.urgent[head] = None
        elif head not in lane.urgent:
            lane.ordinary[head] = None
        self._start_next()

    def discard(self, head: K) -> None:
        """Remove a waiting head."""
        for lane in self._lanes.values():
            lane.urgent.pop(head, None)
            lane.ordinary.pop(head, None)

    def release(self, responsiveness: Responsiveness) -> None:
        """Give back a slot that `start` was called with."""
        self._lanes[responsiveness].busy -= 1
        self._start_next()

    def close(self) -> None:
        """Give no more slots."""
        for lane in self._lanes.values():
            lane.urgent.clear()
            lane.ordinary.clear()
        self._cancel_timer()

    def _start_next(self) -> None:
        while (responsiveness := self._next_lane()) is not None:
            now = self._clock.time()
            if self._scheduled_until - now > self._ahead + CLOCK_RESOLUTION:
                self._start_timer(self._scheduled_until - self._ahead)
                return
            lane = self._lanes.pop(responsiveness)
            self._lanes[responsiveness] = lane  # the other lanes come before it the next time
            lane.busy += 1
            if self._start(lane.pop(), responsiveness):
                self._scheduled_until = max(self._scheduled_until, now) + self._spacing
            else:
                lane.busy -= 1

    def _next_lane(self) -> Responsiveness | None:
        """Return the next lane in turn that has a waiting head and a free slot."""
        return next(
            (each for each, lane in self._lanes.items() if lane and self._has_room(each)), None
        )

    def _has_room(self, responsiveness: Responsiveness) -> bool:
        busy = self.busy
        share = max(1, self._concurrency // _DIVISORS[responsiveness])
        return sum(busy.values()) < self._concurrency and busy[responsiveness] < share

    def _start_timer(self, when: float) -> None:
        if self._timer is None:
            self._timer = self._clock.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._start_next()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
