"""The events about one object: which of them is sent next, and when."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from workqueue import Backoff

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from controller.runtime.events.series import EventSeries, SeriesKey

TRIES = 6
"""Failed attempts after which an event is dropped: five minutes, if it is alone."""

RETRY = Backoff(base=10.0, cap=160.0)
"""Seconds between attempts, with a jitter of a quarter."""

REMEMBERED: Final = 2 * RETRY.cap
"""Seconds for which failures are remembered when no event is left."""


class ObjectEvents:
    """The series of one object, in the order in which they are tried.

    One attempt stands for all: after a failure nothing is sent about the object until the back-off
    is over, and then another series is tried first. So a server that stores no events receives as
    many requests for an object with twenty events as for one with a single event (EVT-7).

    Attributes:
        retry_at: monotonic seconds before which nothing is sent.
    """

    def __init__(self) -> None:
        self._series: OrderedDict[SeriesKey, EventSeries] = OrderedDict()
        self._failures = 0
        self.retry_at = 0.0

    def add(self, key: SeriesKey, series: EventSeries) -> None:
        """Add a series, as the last to be tried."""
        self._series[key] = series

    def remove(self, key: SeriesKey) -> None:
        """Forget a series."""
        del self._series[key]

    def due(self, now: float, *, at_once: bool) -> Iterator[tuple[SeriesKey, EventSeries]]:
        """Yield what is to be sent now; with `at_once` all that the server does not know."""
        for key, series in self._series.items():
            if series.is_due(now) or (at_once and series.sent < series.count):
                yield key, series

    def over(self, now: float) -> list[SeriesKey]:
        """Return the series that are over."""
        return [key for key, series in self._series.items() if series.expires_at <= now]

    def next_at(self) -> float:
        """Return the monotonic seconds at which there is something to do, if nothing happens."""
        if not self._series:
            return self.retry_at + REMEMBERED
        return min(min(each.expires_at, each.refresh_at) for each in self._series.values())

    def is_idle(self, now: float) -> bool:
        """Return whether there is no series, and no failure that a new one should heed."""
        return not self._series and (not self._failures or self.next_at() <= now)

    def succeeded(self) -> None:
        """Forget the failures: the server has answered."""
        self._failures, self.retry_at = 0, 0.0

    def failed(self, key: SeriesKey, now: float, rng: random.Random) -> list[SeriesKey]:
        """Count a failed attempt; return the series that have failed too often (EVT-1).

        Args:
            key: the series that was tried. It may have been removed meanwhile.
            now: monotonic seconds.
            rng: jitter.
        """
        least = 0.75 if self._failures else 0.0
        self.retry_at = now + RETRY.delay(self._failures) * rng.uniform(least, 1.25)
        self._failures += 1
        if key in self._series:
            self._series.move_to_end(key)
        waiting = [(each, series) for each, series in self._series.items() if series.is_due(now)]
        for _, series in waiting:
            series.tries += 1
        return [each for each, series in waiting if series.tries >= TRIES]
