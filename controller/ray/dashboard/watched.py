"""What is known of one probe, and when it is asked next."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from controller.ray.dashboard.observation import Observation
from controller.ray.dashboard.results import NoSuchJob
from controller.ray.dashboard.run import Run

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard.results import ProbeValue
    from controller.ray.dashboard.settings import DashboardSettings
    from controller.ray.dashboard.subscriber import Subscriber


class Watched:
    """The state of one probe of one head.

    Attributes:
        subscribers: the objects that want it, with the interval that each wants.
        run: of failed requests about it.
        generation: grows when what is known stops counting; an answer to a request of a former
            generation does not count.
        quiet_since: loop time since when nothing about it has moved.
        asked: loop time of the last request.
    """

    __slots__ = (
        "_absences", "_observation", "_settings", "asked", "generation", "quiet_since", "run",
        "subscribers",
    )  # fmt: skip

    def __init__(self, settings: DashboardSettings, *, now: float, wall: datetime) -> None:
        self._settings = settings
        self._observation = Observation(None, wall)
        self._absences = 0
        self.subscribers: dict[Subscriber, float] = {}
        self.run = Run(settings.failures)
        self.generation = 0
        self.quiet_since = now
        self.asked = -math.inf

    def observation(self, silence: Run) -> Observation:
        """What is known, given how long the whole dashboard has been silent."""
        run = _older(self.run, silence)
        if run is None:
            return self._observation
        return replace(self._observation, failing_since=run.since, error=run.error)

    def invalidate(self, wall: datetime) -> None:
        """Let nothing count that was asked before now."""
        self.generation += 1
        self._absences = 0
        self._observation = replace(self._observation, value=None, since=wall)

    def answered(self, value: ProbeValue, began: datetime, now: float) -> bool:
        """Take in a definite answer; whether there is something new in it."""
        recovered = self.run.end()
        known = self._observation
        self._absences = self._absences + 1 if isinstance(value, NoSuchJob) else 0
        if value == known.value or self._doubtful:
            self._observation = replace(known, last_success=began)
            return recovered
        self.quiet_since = now
        self._observation = Observation(value, began, began)
        return True

    def next_due(self, now: float) -> float:
        """Loop time of the next question, after one that has just ended."""
        if self.run.length:
            wait = self._settings.backoff.delay(self.run.length - 1)
            return now + max(wait, self._settings.confirm)
        if self._doubtful:
            return now + self._settings.confirm
        return max(now, self.asked + self._settings.pause(self._interval, now - self.quiet_since))

    def hasten(self, now: float) -> float | None:
        """Something moved around it: when to ask instead; None while the last answer failed."""
        self.quiet_since = now
        return None if self.run.length else max(now, self.asked + self._interval)

    @property
    def _interval(self) -> float:
        """The shortest that anybody wants."""
        return min(self.subscribers.values(), default=self._settings.interval)

    @property
    def _doubtful(self) -> bool:
        """Whether a job is said to be absent, but not often enough to be believed."""
        return 0 < self._absences < self._settings.absences


def _older(run: Run, silence: Run) -> Run | None:
    """The decisive run that began first."""
    decisive = [each for each in (run, silence) if each.decisive]
    return min(decisive, key=lambda each: each.start, default=None)
