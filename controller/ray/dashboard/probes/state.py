"""The state of one probe: its last result, and the time of its next request."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from controller.ray.dashboard.client.results import NoSuchJob
from controller.ray.dashboard.probes.failure_streak import FailureStreak
from controller.ray.dashboard.probes.observation import ProbeObservation

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard.client.values import ProbeValue
    from controller.ray.dashboard.settings import DashboardSettings
    from controller.ray.dashboard.subscriber import Subscriber


class ProbeState:
    """The state of one probe of one head.

    Args:
        settings: intervals and thresholds.
        now: loop time.
        wall: the time of day in UTC.
        longest_interval: maximum interval of the probe.

    Attributes:
        subscribers: the objects that subscribe to it, with their intervals.
        failures: its consecutive failed requests.
        generation: incremented whenever the value is invalidated. The response to a request of an
            earlier generation does not count.
        unchanged_since: loop time of the last change, of the value or of a subscriber.
        requested_at: loop time of the last request.
    """

    __slots__ = (
        "_longest",
        "_not_found",
        "_observation",
        "_settings",
        "failures",
        "generation",
        "requested_at",
        "subscribers",
        "unchanged_since",
    )  # fmt: skip

    def __init__(
        self,
        settings: DashboardSettings,
        *,
        now: float,
        wall: datetime,
        longest_interval: float = math.inf,
    ) -> None:
        self._settings = settings
        self._longest = longest_interval
        self._observation = ProbeObservation(None, wall)
        self._not_found = 0
        self.subscribers: dict[Subscriber, float] = {}
        self.failures = FailureStreak(settings.failure_threshold)
        self.generation = 0
        self.unchanged_since = now
        self.requested_at = -math.inf

    def observation(self, silence: FailureStreak) -> ProbeObservation:
        """Return the observation; `silence` are the head's unanswered requests in a row."""
        streak = _older(self.failures, silence)
        if streak is None:
            return self._observation
        return replace(self._observation, failing_since=streak.since, error=streak.error)

    def invalidate(self, wall: datetime) -> None:
        """Forget the value; responses to earlier requests no longer count."""
        self.generation += 1
        self._not_found = 0
        self._observation = replace(self._observation, value=None, since=wall)

    def record_value(self, value: ProbeValue, began: datetime, now: float) -> bool:
        """Record a definite response; return whether the observation has changed."""
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
        """Return the loop time of the next request, after one that has just ended."""
        if self.failures.length:
            wait = self._settings.backoff.delay(self.failures.length - 1)
            return now + max(wait, self._settings.confirmation_interval)
        if self._needs_confirmation:
            return now + self._settings.confirmation_interval
        pause = self._settings.pause(self._interval, now - self.unchanged_since)
        return max(now, self.requested_at + min(pause, max(self._longest, self._interval)))

    def expedite(self, now: float) -> float | None:
        """Count as changed; return the new time of the next request, None after a failure."""
        self.unchanged_since = now
        return None if self.failures.length else max(now, self.requested_at + self._interval)

    @property
    def _interval(self) -> float:
        """The shortest interval of all subscribers."""
        return min(self.subscribers.values(), default=self._settings.interval)

    @property
    def _needs_confirmation(self) -> bool:
        """True if Ray reports an unknown job, but not often enough in a row."""
        return 0 < self._not_found < self._settings.not_found_threshold


def _older(failures: FailureStreak, silence: FailureStreak) -> FailureStreak | None:
    """Return the decisive streak that began first."""
    decisive = [each for each in (failures, silence) if each.decisive]
    return min(decisive, key=lambda each: each.start, default=None)
