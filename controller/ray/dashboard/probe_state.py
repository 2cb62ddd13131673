"""When a head is probed, and what is known of it between probes."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from controller.ray.dashboard.probes import ProbeObservation
from controller.ray.dashboard.responses import NoSuchJob
from workqueue import KeyHeap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.ray.dashboard.probes import Probe, ProbeValue
    from controller.ray.dashboard.values import DashboardSettings, Subscriber


# Consecutive failed requests, which are reported only when there are enough of them.

_NEVER = datetime.max.replace(tzinfo=UTC)


class FailureStreak:
    """Consecutive failures, without a success between them.

    Args:
        threshold: number of failures that make it decisive.

    Attributes:
        length: failures so far.
        since: start of the first failed request.
        error: last error, as a sentence.
    """

    __slots__ = ("_threshold", "error", "length", "since")

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self.length = 0
        self.since: datetime | None = None
        self.error = ""

    @property
    def decisive(self) -> bool:
        """True if it is long enough to be reported."""
        return self.length >= self._threshold

    @property
    def start(self) -> datetime:
        """`since` for comparisons; the end of time without a failure."""
        return self.since or _NEVER

    def add(self, began: datetime, error: str) -> bool:
        """Add a failure; return whether that made the streak decisive."""
        self.length += 1
        self.since = self.since or began
        self.error = error
        return self.length == self._threshold

    def extend(self, other: FailureStreak) -> None:
        """Continue `other` if that streak is older."""
        if self.start <= other.start:
            return
        self.since = other.since
        self.length = max(self.length, other.length)
        self.error = self.error or other.error

    def end(self) -> bool:
        """End the streak after a success; return whether it was decisive."""
        was = self.decisive
        self.length, self.since, self.error = 0, None, ""
        return was


# The state of one probe: its last result, and the time of its next request.


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


# The probes of one head: their subscribers and their due times.


class ProbeSchedule:
    """The probes of one head. Times are in seconds of the loop's clock.

    A probe that open commands invalidate is not due before the last of them has ended.

    Args:
        settings: intervals and thresholds.
    """

    def __init__(self, settings: DashboardSettings) -> None:
        self._settings = settings
        self._states: dict[Probe, ProbeState] = {}
        self._due: KeyHeap[Probe] = KeyHeap()
        self._subscribed: Counter[Subscriber] = Counter()
        self._invalidating: Counter[Probe] = Counter()

    def __len__(self) -> int:
        """Return the number of probes."""
        return len(self._states)

    def get(self, probe: Probe) -> ProbeState | None:
        """Return the state of a probe; None if it has no subscriber."""
        return self._states.get(probe)

    def items(self) -> Iterable[tuple[Probe, ProbeState]]:
        """Yield all probes with their states."""
        return self._states.items()

    def states(self) -> Iterable[ProbeState]:
        """Yield the states of all probes."""
        return self._states.values()

    def subscribers(self) -> tuple[Subscriber, ...]:
        """Return all objects that subscribe to any probe, each once."""
        return tuple(self._subscribed)

    def has_subscriber(self, subscriber: Subscriber) -> bool:
        """Return whether this object subscribes to any probe."""
        return subscriber in self._subscribed

    def subscribe(
        self, probe: Probe, subscriber: Subscriber, interval: float, now: float, wall: datetime
    ) -> None:
        """Add or renew a subscription; either makes the next request come sooner."""
        state = self._states.get(probe)
        if state is None:
            state = self._states[probe] = ProbeState(
                self._settings, now=now, wall=wall, longest_interval=probe.longest_interval
            )
            self._push(probe, now)
        if subscriber not in state.subscribers:
            self._subscribed[subscriber] += 1
        state.subscribers[subscriber] = interval
        due = state.expedite(now)
        if due is not None and probe in self._due and self._due.rank(probe) > due:
            self._due.push(probe, due)

    def unsubscribe(self, probe: Probe, subscriber: Subscriber) -> bool:
        """Remove a subscriber; return whether that was its last subscription."""
        state = self._states[probe]
        del state.subscribers[subscriber]
        if not state.subscribers:
            del self._states[probe]
            self._due.discard(probe)
        self._subscribed[subscriber] -= 1
        if self._subscribed[subscriber]:
            return False
        del self._subscribed[subscriber]
        return True

    def invalidate(self, probes: Iterable[Probe], wall: datetime) -> None:
        """Forget the values of these probes until `release` was called as often."""
        for probe in probes:
            self._invalidating[probe] += 1
            state = self._states.get(probe)
            if state is not None:
                state.invalidate(wall)
                self._due.discard(probe)

    def release(self, probes: Iterable[Probe], now: float) -> None:
        """Let these probes be sent again: at once unless another command invalidates them."""
        for probe in probes:
            self._invalidating[probe] -= 1
            if not self._invalidating[probe]:
                del self._invalidating[probe]
                if probe in self._states:
                    self._push(probe, now)

    def next_due(self) -> float:
        """Return the time of the next probe; infinite if none is due."""
        return self._due.lowest() if self._due else math.inf

    def pop(self) -> Probe:
        """Take the probe that has been due longest."""
        return self._due.pop()

    def reschedule(self, probe: Probe, state: ProbeState, now: float) -> None:
        """Schedule the request after one that has ended, if this is still the probe's state."""
        if self._states.get(probe) is state:
            self._push(probe, state.next_due(now))

    def _push(self, probe: Probe, when: float) -> None:
        if not self._invalidating[probe]:
            self._due.push(probe, when)
