"""Events for people, as events.k8s.io/v1 (EVT-1 to EVT-6).

Recording is synchronous, never waits and never raises. Equal events become one object with a
series; what makes two events equal includes the note, so that no note is ever hidden (EVT-6).

A series is sent level-triggered: `record` only raises a count, and a small work queue brings the
server up to date: at once for the first two, then each half hour, and at the end.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from controller.apimachinery.timestamps import rfc3339_micro
from controller.kube.errors import (
    AlreadyExists,
    Forbidden,
    KubeError,
    NotFound,
    StatusError,
    TooManyRequests,
)
from controller.kube.resources import EVENTS
from controller.runtime.leaderelection.election import AlwaysLeader
from controller.runtime.leaderelection.fence import while_leading
from workqueue import Closed, WorkQueue

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from datetime import datetime

    from controller.kube.client import Client
    from controller.kube.objects import ObjectMeta
    from controller.kube.resources import Resource
    from controller.runtime.leaderelection.election import Fence
    from controller.runtime.reconcile.plan import Event
    from workqueue import Clock

LONGEST_NOTE = 1024
"""Bytes, not characters (EVT-3)."""

LONGEST_FIELD = 128
"""Characters of reason, action and reportingInstance."""

SILENCE = 360.0
"""Seconds without repetition after which a series is over."""

REFRESH = 1800.0
"""Seconds between two updates of a series that goes on."""

BURST = 25
"""Events about one object and of one type that pass at once."""

REFILL = 300.0
"""Seconds after which one more passes."""

MOST_UNSENT = 1000
"""Series that wait to be sent; more are dropped and counted."""

MOST_REMEMBERED = 4096
"""Series and spam buckets kept; the oldest go first."""

TRIES = 12
"""Attempts to send before an event is given up."""

RETRY = 10.0
"""Seconds between attempts, give or take a quarter."""

FLUSH = 2.0
"""Seconds that sending may take at the end."""

SENDERS = 4

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_log = structlog.stdlib.get_logger("manta.events")


class _Key(NamedTuple):
    """What makes two events the same."""

    reporter: str
    regarding: str
    type: str
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class _Series:
    """An event object: what was seen, and what the server knows of it."""

    namespace: str
    name: str
    body: dict[str, Any]
    last_seen: float
    last_time: str
    count: int = 1
    sent: int = 0
    sent_at: float = 0.0
    tries: int = 0


@dataclass(slots=True)
class _Bucket:
    """Tokens left for one object and type."""

    tokens: float
    filled: float


@dataclass(slots=True)
class RecorderStatistics:
    """Numbers since the start."""

    sent: int = 0
    spam: int = 0
    overflow: int = 0
    failed: int = 0
    unsent: int = 0


class Recorder:
    """Takes events and sends them in the background.

    Args:
        client: for `create` and `patch` of events.events.k8s.io.
        instance: `reportingInstance`, usually the pod's name.
        clock: the running event loop, or something like it.
        wall: the time of day, UTC.
        rng: jitter, and names where the object's own is unfit.
        fence: no event is sent while it is closed, and none takes longer than the lease holds.
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
        self._queue: WorkQueue[_Key] = WorkQueue(clock=clock, rng=rng)
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()
        self._stamp = 0
        self._flushing = False
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
        note = clip(event.note, LONGEST_NOTE)
        digest = hashlib.sha256(note.encode()).hexdigest()
        regarding = meta.uid or f"{resource}/{meta.key}"
        key = _Key(reporter, regarding, event.type, event.reason, event.action, digest)
        if not self._passes(key):
            self.statistics.spam += 1
            return
        series = self._series.get(key)
        if series is not None:
            series.count += 1
            series.last_seen = self._clock.time()
            series.last_time = rfc3339_micro(self._wall())
        elif self.statistics.unsent >= MOST_UNSENT:
            self.statistics.overflow += 1
            return
        else:
            self._begin(key, resource, meta, event, note)
        self._queue.add(key)

    async def run(self) -> None:
        """Send until closed."""
        async with asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(self._work(), name=self.name)

    async def flush(self) -> None:
        """Send what is unsent, for at most two seconds, and close."""
        self._flushing = True
        for key, series in self._series.items():
            if series.sent < series.count:
                self._queue.add(key)
        left = await self._queue.drain(self._clock.time() + FLUSH)
        self._queue.close()
        if left:
            _log.warning("events.unsent", count=len(left))

    def _begin(
        self, key: _Key, resource: Resource[Any], meta: ObjectMeta, event: Event, note: str
    ) -> None:
        now = rfc3339_micro(self._wall())
        namespace = meta.namespace or "default"
        name = self._name(meta.name)
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": namespace},
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
        self._series[key] = _Series(namespace, name, body, self._clock.time(), now)
        self.statistics.unsent += 1
        while len(self._series) > MOST_REMEMBERED:
            self._drop(next(iter(self._series)))

    def _name(self, of: str) -> str:
        """`<object>.<hex nanoseconds>`, or a uuid if that is no DNS subdomain (EVT-4)."""
        nanoseconds = int(self._wall().timestamp() * 1_000_000) * 1000
        self._stamp = max(self._stamp + 1, nanoseconds)
        name = f"{of}.{self._stamp:x}"
        if len(name) <= 253 and _SUBDOMAIN.fullmatch(name):
            return name
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def _passes(self, key: _Key) -> bool:
        """The spam filter: a token bucket for each object and type, whatever the reason."""
        name = (key.regarding, key.type)
        now = self._clock.time()
        bucket = self._buckets.setdefault(name, _Bucket(BURST, now))
        self._buckets.move_to_end(name)
        if len(self._buckets) > MOST_REMEMBERED:
            self._buckets.popitem(last=False)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.filled) / REFILL)
        bucket.filled = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    async def _work(self) -> None:
        while True:
            try:
                async with self._queue.take() as key:
                    await self._bring_up_to_date(key)
            except Closed:
                return

    async def _bring_up_to_date(self, key: _Key) -> None:
        series = self._series.get(key)
        if series is None:
            return
        if self._is_due(series) and not await self._try(key, series):
            return
        over = series.last_seen + SILENCE - self._clock.time()
        if over <= 0:
            self._drop(key)
            return
        refresh = series.sent_at + REFRESH - self._clock.time()
        self._queue.add_after(key, min(over, refresh) if series.sent < series.count else over)

    def _is_due(self, series: _Series) -> bool:
        """The first two occurrences at once, later ones each half hour and at the end."""
        if series.sent == series.count:
            return False
        now = self._clock.time()
        return (
            series.sent < 2
            or now >= series.sent_at + REFRESH
            or now >= series.last_seen + SILENCE
            or self._flushing
        )

    async def _try(self, key: _Key, series: _Series) -> bool:
        """Whether the server is up to date now. If not, the series was given up or waits."""
        count = series.count
        try:
            async with while_leading(self._fence):
                await self._send(series, count)
        except KubeError as error:
            return self._failed(key, series, error)
        if series.sent == 0:
            self.statistics.unsent -= 1
            self.statistics.sent += 1
        series.sent, series.sent_at, series.tries = count, self._clock.time(), 0
        return True

    async def _send(self, series: _Series, count: int) -> None:
        repeated = {"count": count, "lastObservedTime": series.last_time}
        if series.sent:
            try:
                await self._client.merge_patch(
                    EVENTS, series.namespace, series.name, {"series": repeated}
                )
            except NotFound:
                pass  # expired on the server: begin again
            else:
                return
        body = {**series.body, "series": repeated} if count > 1 else series.body
        try:
            await self._client.create(EVENTS, series.namespace, body)
        except AlreadyExists:
            return  # an attempt whose answer was lost

    def _failed(self, key: _Key, series: _Series, error: KubeError) -> bool:
        """CreateErrors are final, anything else is tried again (EVT-1)."""
        series.tries += 1
        if _is_final(error) or series.tries >= TRIES:
            if not _namespace_terminating(error):
                self.statistics.failed += 1
                _log.warning("event.dropped", name=series.name, error=str(error))
            self._drop(key)
            return False
        low = 0.0 if series.tries == 1 else 0.75
        self._queue.add_after(key, RETRY * self._rng.uniform(low, 1.25))
        return False

    def _drop(self, key: _Key) -> None:
        series = self._series.pop(key, None)
        if series is not None and series.sent == 0:
            self.statistics.unsent -= 1


def clip(text: str, limit: int) -> str:
    """`text` cut to at most `limit` bytes of UTF-8, never inside a character."""
    data = text.encode()
    return text if len(data) <= limit else data[:limit].decode(errors="ignore")


def _is_final(error: KubeError) -> bool:
    if not isinstance(error, StatusError) or isinstance(error, TooManyRequests):
        return False
    return error.status.code < 500


def _namespace_terminating(error: KubeError) -> bool:
    return isinstance(error, Forbidden) and any(
        reason == "NamespaceTerminating" for reason, _ in error.status.causes
    )
