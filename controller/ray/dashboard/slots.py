"""Who may send now: a bounded number of requests, at a bounded rate, fair to all heads.

A dashboard that accepts and never answers holds its slot until the time limit. So those whose
last request was not answered share a quarter of the slots, those that were never asked have at
most a half; a head that has just answered always finds room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable

    from informers import Clock

K = TypeVar("K", bound=Hashable)

CLOCK_RESOLUTION = 0.001
"""Seconds by which something may be due early: a loop calls a tick of its clock too early, and
what were not due then would be armed again for the same moment, over and over."""


class Responsiveness(Enum):
    """What to expect of a dashboard's next answer."""

    RESPONSIVE = "proven"  # it answered the last request
    UNKNOWN = "fresh"  # it was never asked
    UNRESPONSIVE = "suspect"  # it did not answer the last request


_SHARES = {Responsiveness.RESPONSIVE: 1, Responsiveness.UNKNOWN: 2, Responsiveness.UNRESPONSIVE: 4}
"""Of so many slots they may have one."""


class _Lane(Generic[K]):
    """Those of equal trust that wait, the urgent ones first."""

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
    """Gives out slots.

    Args:
        clock: for the rate.
        concurrency: slots.
        rate: slots given out a second.
        burst: slots that may be ahead of the rate.
        start: called with the one whose turn it is; must not call back before it returns. False
            if it needs no slot any more.
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
        self._lanes: dict[Responsiveness, _Lane[K]] = {trust: _Lane() for trust in Responsiveness}
        self._scheduled_until = 0.0
        self._timer: TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return sum(map(len, self._lanes.values()))

    @property
    def busy(self) -> dict[Responsiveness, int]:
        """Slots in use."""
        return {trust: lane.busy for trust, lane in self._lanes.items()}

    def enqueue(self, who: K, trust: Responsiveness, *, urgent: bool) -> None:
        """Wait for a slot. Who waits already may only become urgent."""
        lane = self._lanes[trust]
        if urgent:
            lane.ordinary.pop(who, None)
            lane.urgent[who] = None
        elif who not in lane.urgent:
            lane.ordinary[who] = None
        self._start_next()

    def discard(self, who: K) -> None:
        """Wait no longer."""
        for lane in self._lanes.values():
            lane.urgent.pop(who, None)
            lane.ordinary.pop(who, None)

    def release(self, trust: Responsiveness) -> None:
        """Give back a slot that was got with this trust."""
        self._lanes[trust].busy -= 1
        self._start_next()

    def close(self) -> None:
        """Give out nothing more."""
        for lane in self._lanes.values():
            lane.urgent.clear()
            lane.ordinary.clear()
        self._cancel_timer()

    def _start_next(self) -> None:
        while (trust := self._next_lane()) is not None:
            now = self._clock.time()
            if self._scheduled_until - now > self._ahead + CLOCK_RESOLUTION:
                self._start_timer(self._scheduled_until - self._ahead)
                return
            lane = self._lanes.pop(trust)
            self._lanes[trust] = lane  # its turn comes again after the others
            lane.busy += 1
            if self._start(lane.pop(), trust):
                self._scheduled_until = max(self._scheduled_until, now) + self._spacing
            else:
                lane.busy -= 1

    def _next_lane(self) -> Responsiveness | None:
        """The lane whose turn it is."""
        return next(
            (trust for trust, lane in self._lanes.items() if lane and self._has_room(trust)), None
        )

    def _has_room(self, trust: Responsiveness) -> bool:
        """Whether there is a slot for such a one."""
        busy = self.busy
        share = max(1, self._concurrency // _SHARES[trust])
        return sum(busy.values()) < self._concurrency and busy[trust] < share

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
