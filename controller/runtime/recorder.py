"""Events for people, as events.k8s.io/v1 (EVT-1, EVT-7).

Recording is synchronous, never waits and never raises. Equal events become one object with a
series; what makes two events equal includes the note, so that no note is ever hidden (EVT-6).

A series is sent level-triggered: `record` only raises a count. The key of the work queue is the
object that events are about: one of its events is sent at a time, at once for the first two
occurrences, then every half hour, and at the end.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import re
import uuid
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from controller.apimachinery.conditions import rfc3339_micro
from controller.apimachinery.redaction import clip, fold, shorten
from controller.kube.client import Client
from controller.kube.errors import (
    AlreadyExists,
    KubeError,
    NotFound,
    StatusError,
    TooManyRequests,
    is_namespace_terminating,
)
from controller.kube.objects import ObjectMeta
from controller.kube.resources import EVENTS, Resource
from controller.runtime.election import AlwaysLeader, Fence, while_leading
from controller.runtime.plan import Event
from workqueue import Backoff, Clock, Workers, WorkQueue

MOST_UNSENT = 1000
"""Series that may wait to be sent; further events are dropped and counted, but for warnings."""

MOST_UNSENT_WITH_WARNINGS = 2 * MOST_UNSENT
"""The same for warnings, so that waiting ordinary events never displace them."""

MOST_REMEMBERED = 4096
"""Series kept; the oldest is discarded first."""

FLUSH = 2.0
"""Seconds that `flush` may take."""

SENDERS = 4
"""Events sent at the same time, apart from those whose requests take long."""

PATIENCE = 0.5
"""Seconds for which a slow request delays the next event."""

LONGEST_NOTE = 1024
"""Bytes, not characters."""

LONGEST_FIELD = 128
"""Characters of reason, action and reportingInstance."""

SILENCE = 360.0
"""Seconds without repetition after which a series is over."""

REFRESH = 1800.0
"""Seconds between two updates of a series that continues."""

TRIES = 6
"""Failed attempts after which an event is dropped: five minutes."""

RETRY = Backoff(base=10.0, cap=160.0)
"""Seconds between attempts, with a jitter of a quarter."""

REMEMBERED: Final = 2 * RETRY.cap
"""Seconds for which failures are remembered when no event is left."""

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_log = structlog.stdlib.get_logger("manta.events")


@dataclass(slots=True)
class RecorderStatistics:
    """Numbers since the start; `unsent` is the number of series of which nothing is sent yet."""

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


@dataclass(slots=True, eq=False)
class EventSeries:
    """An event object, its occurrences, and how many of them the server has received.

    Attributes:
        body: the event object at its first occurrence, encoded: thousands are remembered.
        last_seen: monotonic seconds of the last occurrence.
        last_time: time of the last occurrence, RFC 3339.
        sent: occurrences that the server has received.
        sent_at: monotonic seconds of the last successful request.
        tries: failed attempts since then.
        waited: failed attempts about its object while it was due, since one has succeeded.
    """

    key: SeriesKey
    body: bytes
    last_seen: float
    last_time: str
    count: int = 1
    sent: int = 0
    sent_at: float = 0.0
    tries: int = 0
    waited: int = 0

    @property
    def expires_at(self) -> float:
        """Monotonic seconds at which the series is over, unless the event occurs again."""
        return self.last_seen + SILENCE

    @property
    def due_at(self) -> float:
        """Monotonic seconds at which to send occurrences; infinite if all are sent."""
        if self.sent == self.count:
            return math.inf
        return -math.inf if self.sent < 2 else min(self.sent_at + REFRESH, self.expires_at)


@dataclass(slots=True, eq=False)
class ObjectEvents:
    """The events about one object, and how sending them fails (EVT-7).

    A server that does not store one event about an object rarely stores another. So after a failure
    none is sent before the back-off is over: an object with twenty events costs no more requests
    than one with a single event.

    Attributes:
        failures: failed attempts since one has succeeded.
        retry_at: monotonic seconds before which nothing is sent.
    """

    series: list[EventSeries] = field(default_factory=list[EventSeries])
    failures: int = 0
    retry_at: float = -math.inf

    def due(self, now: float) -> list[EventSeries]:
        """Return what is to be sent now, what failed least often first."""
        due = [each for each in self.series if each.due_at <= now]
        return sorted(due, key=lambda each: each.tries)

    @property
    def next_at(self) -> float:
        """Monotonic seconds at which a series is due or over, or the failures are forgotten."""
        if not self.series:
            return self.retry_at + REMEMBERED
        return min(
            each.expires_at if each.sent == each.count else max(each.due_at, self.retry_at)
            for each in self.series
        )

    def succeeded(self) -> None:
        """Record that the server has answered."""
        self.failures, self.retry_at = 0, -math.inf
        for each in self.series:
            each.waited = 0

    def failed(self, tried: EventSeries, now: float, rng: random.Random) -> list[EventSeries]:
        """Count a failed attempt; return the series that have waited for too many (EVT-1)."""
        least = 0.75 if self.failures else 0.0
        self.retry_at = now + RETRY.delay(self.failures) * rng.uniform(least, 1.25)
        self.failures += 1
        tried.tries += 1
        for each in (waiting := self.due(now)):
            each.waited += 1
        return [each for each in waiting if max(each.tries, each.waited) >= TRIES]


class Recorder:
    """Records events and sends them in the background: a `manager.Runnable`.

    Args:
        client: for `create` and `patch` of events.events.k8s.io.
        instance: `reportingInstance`, usually the pod's name.
        rng: jitter, and names where that of the object does not fit.
        fence: no event is sent unless this process leads, and no request outlasts the lease.
    """

    name = "event recorder"

    def __init__(
        self,
        client: Client,
        *,
        instance: str,
        clock: Clock,
        wall: Callable[[], datetime],
        rng: random.Random,
        fence: Fence | None = None,
    ) -> None:
        self._client = client
        self._instance = instance[:LONGEST_FIELD]
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._fence: Fence = AlwaysLeader() if fence is None else fence
        self._queue: WorkQueue[str] = WorkQueue(clock=clock, rng=rng)
        self._series: OrderedDict[SeriesKey, EventSeries] = OrderedDict()
        self._objects: dict[str, ObjectEvents] = {}  # by `SeriesKey.regarding`
        self._spam_filter = SpamFilter()
        self._stamp = 0
        self._stopped = asyncio.Event()
        self.statistics = RecorderStatistics()

    def record(
        self,
        resource: Resource[Any],
        meta: ObjectMeta,
        event: Event,
        *,
        reporter: str = "manta-operator",
    ) -> None:
        """Record an event about the object with that metadata. Never waits, never raises."""
        note = shorten(event.note, LONGEST_NOTE)
        digest = hashlib.sha256(
            (_folded(event.note) if event.quotes else note).encode()
        ).hexdigest()
        regarding = meta.uid or f"{resource}/{meta.key}"
        key = SeriesKey(reporter, regarding, event.type, event.reason, event.action, digest)
        many, now = bool(event.aggregate_note), self._clock.time()
        most_unsent = MOST_UNSENT_WITH_WARNINGS if event.type == "Warning" else MOST_UNSENT
        if not self._spam_filter.passes(regarding, event.type, now, one_of_many=many):
            self.statistics.spam += 1
            return
        series = self._series.get(key)
        if series is not None:
            series.count += 1
            series.last_seen = now
            series.last_time = rfc3339_micro(self._wall())
        elif self.statistics.unsent >= most_unsent:
            self.statistics.overflow += 1
            return
        else:
            self._begin(key, resource, meta, event, note)
        self._queue.add(regarding)

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Send until stopped, then what is left."""
        workers = Workers(
            self._queue,
            self._process,
            SENDERS,
            name=self.name,
            clock=self._clock,
            patience=PATIENCE,
            limit=MOST_UNSENT,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(workers.run())
            ready()
            await self._stopped.wait()
            await self.flush()

    def stop(self) -> None:
        """Send what is left, and end."""
        self._stopped.set()

    async def flush(self) -> None:
        """Close, and try once to send all unsent occurrences, for at most two seconds."""
        self._queue.close()
        unsent = [each for each in self._series.values() if each.sent < each.count]
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH):
                await asyncio.gather(*map(self._send, unsent), return_exceptions=True)
        if left := sum(each.sent < each.count for each in self._series.values()):
            _log.warning("events.unsent", count=left)

    def _begin(
        self, key: SeriesKey, resource: Resource[Any], meta: ObjectMeta, event: Event, note: str
    ) -> None:
        """Remember a new series."""
        now = rfc3339_micro(self._wall())
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": self._name(meta.name), "namespace": meta.namespace or "default"},
            "eventTime": now,
            "reportingController": key.reporter,
            "reportingInstance": self._instance,
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
        series = EventSeries(key, msgspec.json.encode(body), self._clock.time(), now)
        self._series[key] = series
        self._objects.setdefault(key.regarding, ObjectEvents()).series.append(series)
        self.statistics.unsent += 1
        while len(self._series) > MOST_REMEMBERED:
            self._drop(next(iter(self._series.values())))

    def _name(self, of: str) -> str:
        """Return `<object>.<hex nanoseconds>`, or a uuid if that is not a DNS subdomain."""
        nanoseconds = int(self._wall().timestamp() * 1_000_000) * 1000
        self._stamp = max(self._stamp + 1, nanoseconds)
        name = f"{of}.{self._stamp:x}"
        if len(name) <= 253 and _SUBDOMAIN.fullmatch(name):
            return name
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    async def _process(self, regarding: str) -> None:
        """Send one event about an object, if one is due, and look again when the next one is."""
        events = self._objects.get(regarding)
        if events is None:
            return
        now = self._clock.time()
        due = events.due(now) if now >= events.retry_at else []
        if due:
            await self._try(events, due[0])
        now = self._clock.time()
        for each in tuple(events.series):
            if each.expires_at <= now and each.sent == each.count:
                self._drop(each)
        if self._objects.get(regarding) is not events:
            return
        if not events.series and events.next_at <= now:
            del self._objects[regarding]
        else:
            self._queue.add_after(regarding, events.next_at - now)

    async def _try(self, events: ObjectEvents, series: EventSeries) -> None:
        """Send an event, which puts off all others about its object if it fails."""
        try:
            await self._send(series)
        except KubeError as error:
            if not _is_final(error):
                for each in events.failed(series, self._clock.time(), self._rng):
                    self._reject(each, error)
                return
            events.succeeded()
            self._reject(series, error)
        except Exception as error:  # noqa: BLE001  one event must not end the task
            events.succeeded()
            self.statistics.failed += 1
            _log.error("event.dropped", regarding=series.key.regarding, exc_info=error)
            self._drop(series)
        else:
            events.succeeded()

    async def _send(self, series: EventSeries) -> None:
        """Send the occurrences so far."""
        count = series.count
        async with while_leading(self._fence):
            await self._write(series, count)
        if series.sent == 0:
            self.statistics.sent += 1
            self.statistics.unsent -= self._series.get(series.key) is series  # else discarded
        series.sent, series.sent_at, series.tries = count, self._clock.time(), 0

    async def _write(self, series: EventSeries, count: int) -> None:
        body: dict[str, Any] = msgspec.json.decode(series.body)
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        client = self._client.for_flow(f"events/{namespace}")
        repeated = {"count": count, "lastObservedTime": series.last_time}
        if series.sent:
            try:
                await client.merge_patch(EVENTS, namespace, name, {"series": repeated})
            except NotFound:
                pass  # the event expired on the server: create it again
            else:
                return
        if count > 1:
            body["series"] = repeated
        with suppress(AlreadyExists):  # an earlier attempt, whose response was lost
            await client.create(EVENTS, namespace, body)

    def _reject(self, series: EventSeries, error: KubeError) -> None:
        if not is_namespace_terminating(error):
            self.statistics.failed += 1
            name = msgspec.json.decode(series.body)["metadata"]["name"]
            _log.warning("event.dropped", name=name, error=str(error))
        self._drop(series)

    def _drop(self, series: EventSeries) -> None:
        """Forget a series, and its object with the last one, unless that has failed lately."""
        if self._series.get(series.key) is not series:
            return
        del self._series[series.key]
        if series.sent == 0:
            self.statistics.unsent -= 1
        events = self._objects[series.key.regarding]
        events.series.remove(series)
        if not events.series and not events.failures:
            del self._objects[series.key.regarding]


def _folded(note: str) -> str:
    """Return the folded note, cut after folding, so that varying lengths do not move its end."""
    return clip(fold(clip(note, 4 * LONGEST_NOTE)), LONGEST_NOTE)


def _is_final(error: KubeError) -> bool:
    if not isinstance(error, StatusError) or isinstance(error, TooManyRequests):
        return False
    return error.status.code < 500


# Limits the events about one object, as upstream's older recorder does (EVT-1).

BURST = 25
"""Events about one object and of one type that pass at once."""

RESERVED = 5
"""Events out of `BURST` that are reserved for events which are not one of many."""

REFILL = 300.0
"""Seconds after which one more passes."""

CAPACITY = 4096
"""Buckets kept; the one that was used longest ago is discarded first."""


class SpamFilter:
    """A token bucket for each object and event type, whatever the reason of the event."""

    def __init__(self) -> None:
        # tokens left, and when that was so
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

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
        tokens, filled = self._buckets.pop(name, (float(BURST), now))
        tokens = min(BURST, tokens + (now - filled) / REFILL)
        is_passed = tokens >= 1 + RESERVED * one_of_many
        self._buckets[name] = tokens - is_passed, now
        if len(self._buckets) > CAPACITY:
            self._buckets.popitem(last=False)
        return is_passed
