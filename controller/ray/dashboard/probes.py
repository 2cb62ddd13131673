"""The probes of heads: what each asks, what it has seen, and when it is sent again."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from controller.ray.dashboard import BACKOFF, FAILURE_THRESHOLD, Head, Subscriber
from controller.ray.dashboard.client import DashboardClient, RayNodes
from controller.ray.dashboard.responses import JobInfo, NoSuchJob, RayVersion
from controller.ray.dashboard.serve import ProxyHealth, RayActivity, ServeState
from controller.runtime.plan import Subscription

# The possible results of probes and commands.

ProbeValue: TypeAlias = (
    JobInfo | NoSuchJob | RayVersion | ServeState | ProxyHealth | RayNodes | RayActivity
)
CommandValue: TypeAlias = JobInfo | NoSuchJob | None
"""What Ray says about a stopped job; None of other commands, which it has carried out."""


# Probes: requests that a dashboard answers periodically.


@dataclass(frozen=True, slots=True)
class Probe:
    """One value to observe. Equal probes of a head share their requests.

    Attributes:
        name: name in metrics and logs.
        ask: the call of the client.
        longest_interval: maximum seconds between two requests, however long the value has stayed.
    """

    name: ClassVar[str]
    longest_interval: ClassVar[float] = math.inf
    ask: ClassVar[Callable[[DashboardClient], Awaitable[ProbeValue]]]

    async def send(self, client: DashboardClient) -> ProbeValue:
        """Send it once. Raises `DashboardError`."""
        return await type(self).ask(client)


@dataclass(frozen=True, slots=True)
class JobProbe(Probe):
    """Reads the state of a job; the value is a `JobInfo` or `NoSuchJob`."""

    name: ClassVar[str] = "job"

    job_id: str

    async def send(self, client: DashboardClient) -> ProbeValue:
        """Implement `Probe.send`."""
        return await client.job(self.job_id)


@dataclass(frozen=True, slots=True)
class HealthProbe(Probe):
    """Asks whether dashboard and GCS answer; the value is a `RayVersion`."""

    name: ClassVar[str] = "health"
    ask: ClassVar = DashboardClient.health


@dataclass(frozen=True, slots=True)
class NodesProbe(Probe):
    """Reads the nodes that have joined or ended; the value is a `RayNodes`."""

    name: ClassVar[str] = "nodes"
    longest_interval: ClassVar[float] = 10.0
    ask: ClassVar = DashboardClient.nodes


@dataclass(frozen=True, slots=True)
class ActivityProbe(Probe):
    """Asks what uses the cluster; the value is a `RayActivity`."""

    name: ClassVar[str] = "activity"
    longest_interval: ClassVar[float] = 30.0
    ask: ClassVar = DashboardClient.activity


@dataclass(frozen=True, slots=True)
class ServeProbe(Probe):
    """Reads the state of Serve; the value is a `ServeState`."""

    name: ClassVar[str] = "serve"
    ask: ClassVar = DashboardClient.serve_state


@dataclass(frozen=True, slots=True)
class ProxyProbe(Probe):
    """Asks whether a `ServeProxy` takes requests; the value is a `ProxyHealth`.

    Serve reports a dead proxy as healthy for another 20 s, so the probe asks the proxy itself, at
    an interval that does not grow like those of other probes.
    """

    name: ClassVar[str] = "proxy"
    longest_interval: ClassVar[float] = 10.0
    ask: ClassVar = DashboardClient.proxy_health


@dataclass(frozen=True, slots=True)
class ProbeSubscription(Subscription):
    """A probe of a head that is sent for as long as the object's plans list it."""

    head: Head
    probe: Probe


# The state of a probe as a kind observes it.


class ProbeObservation(Struct, frozen=True):
    """The state of one probe.

    Attributes:
        value: the last definite response; None if there is none yet, or none since the end of the
            last command that invalidates the probe. None means unknown, never absent.
        since: time when `value` last changed.
        last_success: start of the last request that had a definite response.
        failing_since: start of the first of the consecutive failed requests; None while there are
            too few of them.
        error: error of the last of them, as a sentence; empty without `failing_since`.
    """

    value: ProbeValue | None
    since: datetime
    last_success: datetime | None = None
    failing_since: datetime | None = None
    error: str = ""


# When a head is probed, and what is known of it between probes.

# Consecutive failed requests, which are reported only when there are enough of them.

_NEVER = datetime.max.replace(tzinfo=UTC)


class FailureStreak:
    """Consecutive failures, without a success between them; `FAILURE_THRESHOLD` are decisive."""

    __slots__ = ("error", "length", "since")

    def __init__(self) -> None:
        self.length = 0
        self.since: datetime | None = None
        self.error = ""

    @property
    def decisive(self) -> bool:
        """True if it is long enough to be reported."""
        return self.length >= FAILURE_THRESHOLD

    @property
    def start(self) -> datetime:
        """`since` for comparisons; the end of time without a failure."""
        return self.since or _NEVER

    def add(self, began: datetime, error: str) -> bool:
        """Add a failure; return whether that made the streak decisive."""
        self.length += 1
        self.since = self.since or began
        self.error = error
        return self.length == FAILURE_THRESHOLD

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

INTERVAL: Final = 3.0
"""Seconds between two requests of a probe whose value changes."""

LONGEST_INTERVAL: Final = 30.0
"""The same for a value that has not changed for a long time."""

IDLE_DIVISOR: Final = 10.0
"""Between the two, the interval is the time without a change divided by this."""

NOT_FOUND_THRESHOLD: Final = 2
"""Consecutive responses that a job is unknown before they count."""

CONFIRMATION_INTERVAL: Final = 1.0
"""Seconds until a probe is repeated to confirm such a response."""


class ProbeState:
    """The state of one probe of one head.

    Args:
        now: loop time.
        wall: the time of day in UTC.
        longest_interval: maximum interval of the probe.

    Attributes:
        subscribers: the objects that subscribe to it, in their order.
        failures: its consecutive failed requests.
        generation: incremented whenever the value is invalidated. The response to a request of an
            earlier generation does not count.
        unchanged_since: loop time of the last change, of the value or of a subscriber.
        requested_at: loop time of the last request.
        due: loop time of the next one; infinite while there is none.
    """

    __slots__ = (
        "_longest",
        "_not_found",
        "_observation",
        "due",
        "failures",
        "generation",
        "requested_at",
        "subscribers",
        "unchanged_since",
    )  # fmt: skip

    def __init__(self, now: float, wall: datetime, longest_interval: float) -> None:
        self._longest = longest_interval
        self._observation = ProbeObservation(None, wall)
        self._not_found = 0
        self.subscribers: dict[Subscriber, None] = {}
        self.failures = FailureStreak()
        self.generation = 0
        self.unchanged_since = now
        self.requested_at = -math.inf
        self.due = math.inf

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
            wait = BACKOFF.delay(self.failures.length - 1)
            return now + max(wait, CONFIRMATION_INTERVAL)
        if self._needs_confirmation:
            return now + CONFIRMATION_INTERVAL
        pause = max(INTERVAL, (now - self.unchanged_since) / IDLE_DIVISOR)
        return max(now, self.requested_at + min(pause, LONGEST_INTERVAL, self._longest))

    def expedite(self, now: float) -> None:
        """Count as changed, so that a request that is due comes sooner, unless the last failed."""
        self.unchanged_since = now
        if not self.failures.length and self.due < math.inf:
            self.due = min(self.due, max(now, self.requested_at + INTERVAL))

    @property
    def _needs_confirmation(self) -> bool:
        """True if Ray reports an unknown job, but not often enough in a row."""
        return 0 < self._not_found < NOT_FOUND_THRESHOLD


def _older(failures: FailureStreak, silence: FailureStreak) -> FailureStreak | None:
    """Return the decisive streak that began first."""
    decisive = [each for each in (failures, silence) if each.decisive]
    return min(decisive, key=lambda each: each.start, default=None)
