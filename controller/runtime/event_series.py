"""What is told of equal events: series, turns, and no more than an API server bears."""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from controller.kube.objects import ObjectMeta
from controller.kube.resources import EVENTS, Resource
from controller.runtime.plan import Event
from workqueue import Backoff

# One event object and how often its event has occurred.

LONGEST_NOTE = 1024
"""Bytes, not characters."""

LONGEST_FIELD = 128
"""Characters of reason, action and reportingInstance."""

SILENCE = 360.0
"""Seconds without repetition after which a series is over."""

REFRESH = 1800.0
"""Seconds between two updates of a series that continues."""


@dataclass(slots=True)
class RecorderStatistics:
    """Numbers since the start; `unsent` is the number of series that wait to be sent now."""

    sent: int = 0
    spam: int = 0
    overflow: int = 0
    failed: int = 0
    unsent: int = 0


class SeriesKey(NamedTuple):
    """Events with equal keys belong to one series. `note` is a digest of the note."""

    reporter: str
    regarding: str
    type: str
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class EventSeries:
    """An event object, its occurrences, and how many of them the server has received.

    Attributes:
        namespace: namespace of the event object.
        name: name of the event object.
        body: the event object at its first occurrence, encoded: thousands are remembered.
        last_seen: monotonic seconds of the last occurrence.
        last_time: time of the last occurrence, RFC 3339.
        count: occurrences.
        sent: occurrences that the server has received.
        sent_at: monotonic seconds of the last successful request.
        tries: failed attempts since then.
        waits_since: how many attempts about its object had failed when it began to wait.
    """

    namespace: str
    name: str
    body: bytes
    last_seen: float
    last_time: str
    count: int = 1
    sent: int = 0
    sent_at: float = 0.0
    tries: int = 0
    waits_since: int = 0

    @property
    def expires_at(self) -> float:
        """Monotonic seconds at which the series is over, unless the event occurs again."""
        return self.last_seen + SILENCE

    @property
    def refresh_at(self) -> float:
        """Monotonic seconds from which repetitions may be sent again."""
        return self.sent_at + REFRESH

    def is_due(self, now: float) -> bool:
        """Return whether to send now: the first two, half-hourly, and at the end of the series."""
        if self.sent == self.count:
            return False
        return self.sent < 2 or now >= self.refresh_at or now >= self.expires_at


def event_body(
    name: str,
    resource: Resource[Any],
    meta: ObjectMeta,
    event: Event,
    *,
    note: str,
    time: str,
    reporter: str,
    instance: str,
) -> dict[str, Any]:
    """Return the event object for the first occurrence; `time` is RFC 3339 with microseconds."""
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": meta.namespace or "default"},
        "eventTime": time,
        "reportingController": reporter,
        "reportingInstance": instance,
        "type": event.type,
        "reason": event.reason[:LONGEST_FIELD],
        "action": event.action[:LONGEST_FIELD],
        "note": note,
        "regarding": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        },
    }


# Turns of the events about one object.

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


# Limits the events about one object, as upstream's older recorder does (EVT-1).

BURST = 25
"""Events about one object and of one type that pass at once."""

RESERVED = 5
"""Events out of `BURST` that are reserved for events which are not one of many."""

REFILL = 300.0
"""Seconds after which one more passes."""

CAPACITY = 4096
"""Buckets kept; the one that was used longest ago is discarded first."""


@dataclass(slots=True)
class _Bucket:
    """Tokens left for one object and type."""

    tokens: float
    filled: float


class SpamFilter:
    """A token bucket for each object and event type, whatever the reason of the event."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()

    def passes(
        self,
        regarding: str,
        type: str,  # noqa: A002  the field's name
        now: float,
        *,
        one_of_many: bool = False,
    ) -> bool:
        """Take a token for an event about this object at `now` (monotonic s); False without one."""
        name = (regarding, type)
        bucket = self._buckets.setdefault(name, _Bucket(BURST, now))
        self._buckets.move_to_end(name)
        if len(self._buckets) > CAPACITY:
            self._buckets.popitem(last=False)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.filled) / REFILL)
        bucket.filled = now
        if bucket.tokens < 1 + RESERVED * one_of_many:
            return False
        bucket.tokens -= 1
        return True


# Replaces many similar events with one, so that their number does not grow with the pods.
#
# Each event is a request and a line in `kubectl describe`, and the spam filter passes only 25 about
# one object at once: a thousand events about created pods would hide all others.

MAX_JOINED = 4
"""Maximum similar events of one reconcile whose notes are joined; more are only counted."""


def aggregate_events(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of one reconcile; similar ones become one, with all notes or a count."""
    like: dict[Event, list[Event]] = {}
    for event in events:
        kind = replace(event, note="") if event.aggregate_note else event
        like.setdefault(kind, []).append(event)
    for kind, members in like.items():
        if not kind.aggregate_note:
            yield from members
        elif len(members) > MAX_JOINED:
            yield replace(kind, note=kind.aggregate_note.replace("{count}", str(len(members))))
        else:
            yield replace(kind, note="; ".join(each.note for each in members))
