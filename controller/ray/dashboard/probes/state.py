"""What is known of one probe, and when it is asked next."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from controller.ray.dashboard.client.results import NoSuchJob
from controller.ray.dashboard.probes.failure_streak import FailureStreak
from controller.ray.dashboard.probes.observation import ProbeObservation

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard.client.results import ProbeValue
    from controller.ray.dashboard.settings import DashboardSettings
    from controller.ray.dashboard.subscriber import Subscriber


class ProbeState:
    """The state of one probe of one head.

    Attributes:
        subscribers: the objects that want it, with the interval that each wants.
        failures: of failed requests about it.
        generation: grows when what is known stops counting; an answer to a request of a former
            generation does not count.
        unchanged_since: loop time since when nothing about it has moved.
        requested_at: loop time of the last request.
    """

    __slots__ = (
        "_not_found",
        "_observation",
        "_settings",
        "failures",
        "generation",
        "requested_at",
        "subscribers",
        "unchanged_since",
    )  # fmt: skip

    def __init__(self, settings: DashboardSettings, *, now: float, wall: datetime) -> None:
        self._settings = settings
        self._observation = ProbeObservation(None, wall)
        self._not_found = 0
        self.subscribers: dict[Subscriber, float] = {}
        self.failures = FailureStreak(settings.failure_threshold)
        self.generation = 0
        self.unchanged_since = now
        self.requested_at = -math.inf

    def observation(self, silence: FailureStreak) -> ProbeObservation:
        """What is known, given how long the whole dashboard has been silent."""
        run = _older(self.failures, silence)
        if run is None:
            return self._observation
        return replace(self._observation, failing_since=run.since, error=run.error)

    def invalidate(self, wall: datetime) -> None:
        """Let nothing count that was asked before now."""
        self.generation += 1
        self._not_found = 0
        self._observation = replace(self._observation, value=None, since=wall)

    def record_value(self, value: ProbeValue, began: datetime, now: float) -> bool:
        """Take in a definite answer; whether there is something new in it."""
        recovered = self.failures.end()
        known = self._observation
        self._not_found = self._not_found + 1 if isinstance(value, NoSuchJob) else 0
        if value == known.value or self._needs_confirmation:
            self._observation = replace(known, last_success=began)
            return recovered
        self.unchanged_since = now
        self._observation = ProbeObservation(value, began, began)
        return True

    def next_due(self, now: float) -> float:
        """Loop time of the next question, after one that has just ended."""
        if self.failures.length:
            wait = self._settings.backoff.delay(self.failures.length - 1)
            return now + max(wait, self._settings.confirmation_interval)
        if self._needs_confirmation:
            return now + self._settings.confirmation_interval
        return max(
            now,
            self.requested_at + self._settings.pause(self._interval, now - self.unchanged_since),
        )

    def expedite(self, now: float) -> float | None:
        """Something moved around it: when to ask instead; None while the last answer failed."""
        self.unchanged_since = now
        return None if self.failures.length else max(now, self.requested_at + self._interval)

    @property
    def _interval(self) -> float:
        """The shortest that anybody wants."""
        return min(self.subscribers.values(), default=self._settings.interval)

    @property
    def _needs_confirmation(self) -> bool:
        """Whether a job is said to be absent, but not often enough to be believed."""
        return 0 < self._not_found < self._settings.not_found_threshold


def _older(run: FailureStreak, silence: FailureStreak) -> FailureStreak | None:
    """The decisive run that began first."""
    decisive = [each for each in (run, silence) if each.decisive]
    return min(decisive, key=lambda each: each.start, default=None)
