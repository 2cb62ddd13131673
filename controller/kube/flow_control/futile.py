"""Flows and lanes in which repeating a request was in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from controller.kube.flow_control.lanes import Lane
    from informers import Clock

    Pair: TypeAlias = tuple[str, Lane]

MOST = 4096
"""Maximum pairs to remember; the oldest is dropped."""

FORGOTTEN_AFTER = 600.0
"""Seconds without such a request until a pair is forgotten: longer than any back-off."""


class Futile:
    """Remembers such pairs until `FORGOTTEN_AFTER`.

    Args:
        clock: measures that time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[Pair, float] = {}  # the one that ends first is the first
        self._timer: TimerHandle | None = None

    def __contains__(self, pair: Pair) -> bool:
        """Return whether repeating a request of this flow and lane was in vain."""
        return pair in self._ends

    def add(self, pair: Pair) -> None:
        """Remember a pair, counting its time from now."""
        self.discard(pair)
        self._ends[pair] = self._clock.time() + FORGOTTEN_AFTER
        if len(self._ends) > MOST:
            del self._ends[next(iter(self._ends))]
        if self._timer is None:
            self._wait()

    def discard(self, pair: Pair) -> None:
        """Forget a pair if it is remembered."""
        self._ends.pop(pair, None)

    def _wait(self) -> None:
        """Set a timer for the first pair to be forgotten, if there is one."""
        first = next(iter(self._ends.values()), None)
        self._timer = None if first is None else self._clock.call_at(first, self._forget, first)

    def _forget(self, until: float) -> None:
        for pair in [pair for pair, end in self._ends.items() if end <= until]:
            del self._ends[pair]
        self._wait()
