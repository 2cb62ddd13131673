"""Turns of the events about one object."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from workqueue import Backoff

if TYPE_CHECKING:
    import random

    from controller.runtime.events.series import EventSeries, SeriesKey

TRIES = 6
"""Failed attempts after which an event is dropped: five minutes."""

RETRY = Backoff(base=10.0, cap=160.0)
"""Seconds between attempts, with a jitter of a quarter."""

REMEMBERED: Final = 2 * RETRY.cap
"""Seconds for which failures are remembered when no event is left."""


@dataclass(slots=True)
class ObjectTurns:
    """The turns of an object's series, from the first attempt until one succeeds (EVT-7).

    A server that does not store one event about an object rarely stores another. So there is one
    attempt at a time, and after a failure none before the back-off is over: an object with twenty
    events costs no more requests than one with a single event.

    Attributes:
        failures: failed attempts.
        retry_at: monotonic seconds before which nothing is sent.
        busy: whether there is an attempt.
        waiting: series that wait for their turn, with the one that is tried.
    """

    failures: int = 0
    retry_at: float = -math.inf
    busy: bool = False
    waiting: dict[SeriesKey, EventSeries] = field(default_factory=dict["SeriesKey", "EventSeries"])

    @property
    def forgotten_at(self) -> float:
        """Monotonic seconds until which a new event heeds the failures."""
        return self.retry_at + REMEMBERED

    def wait(self, key: SeriesKey, series: EventSeries) -> None:
        """Let a series wait."""
        if key not in self.waiting:
            self.waiting[key] = series
            series.waits_since = self.failures

    def is_turn_of(self, series: EventSeries, now: float) -> bool:
        """Return whether to try this series now; what failed least often goes first."""
        if self.busy or now < self.retry_at:
            return False
        return all(series.tries <= each.tries for each in self.waiting.values())

    def failed(self, now: float, rng: random.Random) -> list[SeriesKey]:
        """Count a failed attempt; return the series that have waited for too many (EVT-1)."""
        least = 0.75 if self.failures else 0.0
        self.retry_at = now + RETRY.delay(self.failures) * rng.uniform(least, 1.25)
        self.failures += 1
        return [
            key
            for key, series in self.waiting.items()
            if max(series.tries, self.failures - series.waits_since) >= TRIES
        ]
