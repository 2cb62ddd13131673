"""Events for people, as events.k8s.io/v1 (EVT-1 to EVT-6).

Recording is synchronous, never waits and never raises. Equal events become one object with a
series; what makes two events equal includes the note, so that no note is ever hidden (EVT-6).

A series is sent level-triggered: `record` only raises a count, and a work queue of objects sends
what is due about each, one series after the other: at once for the first two occurrences, then
every half hour, and at the end.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from controller.apimachinery.folding import fold
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
from controller.runtime.events.object_events import ObjectEvents
from controller.runtime.events.series import (
    LONGEST_FIELD,
    LONGEST_NOTE,
    EventSeries,
    SeriesKey,
    event_body,
)
from controller.runtime.events.spam_filter import SpamFilter
from controller.runtime.leaderelection.election import AlwaysLeader
from controller.runtime.leaderelection.fence import while_leading
from workqueue import Workers, WorkQueue

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from datetime import datetime

    from controller.kube.client import Client
    from controller.kube.objects import ObjectMeta
    from controller.kube.resources import Resource
    from controller.runtime.leaderelection.election import Fence
    from controller.runtime.plan import Event
    from workqueue import Clock

MOST_UNSENT = 1000
"""Series that may wait to be sent; further events are dropped and counted, but for warnings."""

MOST_UNSENT_WITH_WARNINGS = 2 * MOST_UNSENT
"""The same for warnings, so that waiting ordinary events never displace them."""

_GAP: Final = " ... "

MOST_REMEMBERED = 4096
"""Series kept; the oldest is discarded first."""

FLUSH = 2.0
"""Seconds that `flush` may take."""

SENDERS = 4
"""Objects about which events are sent at the same time, apart from those with slow requests."""

PATIENCE = 0.5
"""Seconds for which a slow request delays the events of the next object."""

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_log = structlog.stdlib.get_logger("manta.events")


@dataclass(slots=True)
class RecorderStatistics:
    """Numbers since the start; `unsent` is the number of series that wait to be sent now."""

    sent: int = 0
    spam: int = 0
    overflow: int = 0
    failed: int = 0
    unsent: int = 0


class Recorder:
    """Records events and sends them in the background.

    Args:
        client: for `create` and `patch` of events.events.k8s.io.
        instance: `reportingInstance`, usually the pod's name.
        clock: the running event loop, or something like it.
        wall: the time of day, UTC.
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
        self._objects: dict[str, ObjectEvents] = {}  # by what the events regard
        self._spam_filter = SpamFilter()
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
        note = shorten(event.note, LONGEST_NOTE)
        digest = hashlib.sha256(
            (_folded(event.note) if event.quotes else note).encode()
        ).hexdigest()
        regarding = meta.uid or f"{resource}/{meta.key}"
        key = SeriesKey(reporter, regarding, event.type, event.reason, event.action, digest)
        many, now = bool(event.aggregate_note), self._clock.time()
        if not self._spam_filter.passes(regarding, event.type, now, one_of_many=many):
            self.statistics.spam += 1
            return
        series = self._series.get(key)
        if series is not None:
            series.count += 1
            series.last_seen = self._clock.time()
            series.last_time = rfc3339_micro(self._wall())
        elif self.statistics.unsent >= _most_unsent(event):
            self.statistics.overflow += 1
            return
        else:
            self._begin(key, resource, meta, event, note)
        self._queue.add(regarding)

    async def run(self) -> None:
        """Send until closed."""
        await Workers(
            self._queue,
            self._process,
            SENDERS,
            name=self.name,
            clock=self._clock,
            patience=PATIENCE,
            limit=MOST_UNSENT,
        ).run()

    async def flush(self) -> None:
        """Send all unsent occurrences, for at most two seconds, and close."""
        self._flushing = True
        for regarding in self._objects:
            self._queue.add(regarding)
        await self._queue.drain(self._clock.time() + FLUSH)
        self._queue.close()
        if left := sum(series.sent < series.count for series in self._series.values()):
            _log.warning("events.unsent", count=left)

    def _begin(
        self, key: SeriesKey, resource: Resource[Any], meta: ObjectMeta, event: Event, note: str
    ) -> None:
        now = rfc3339_micro(self._wall())
        name = self._name(meta.name)
        body = event_body(
            name,
            resource,
            meta,
            event,
            note=note,
            time=now,
            reporter=key.reporter,
            instance=self._instance,
        )
        series = EventSeries(meta.namespace or "default", name, body, self._clock.time(), now)
        self._series[key] = series
        self._objects.setdefault(key.regarding, ObjectEvents()).add(key, series)
        self.statistics.unsent += 1
        while len(self._series) > MOST_REMEMBERED:
            self._drop(next(iter(self._series)))

    def _name(self, of: str) -> str:
        """Return `<object>.<hex nanoseconds>`, or a uuid if that is not a DNS subdomain (EVT-4)."""
        nanoseconds = int(self._wall().timestamp() * 1_000_000) * 1000
        self._stamp = max(self._stamp + 1, nanoseconds)
        name = f"{of}.{self._stamp:x}"
        if len(name) <= 253 and _SUBDOMAIN.fullmatch(name):
            return name
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    async def _process(self, regarding: str) -> None:
        events = self._objects.get(regarding)
        if events is None:
            return
        wait = events.retry_at - self._clock.time()
        if wait > 0 and not self._flushing:  # another event does not shorten the back-off
            self._queue.add_after(regarding, wait)
            return
        if not await self._send_all(events):
            self._queue.add_after(regarding, events.retry_at - self._clock.time())
            return
        for key in events.over(self._clock.time()):
            self._drop(key)
        if events.is_idle(self._clock.time()):
            self._objects.pop(regarding, None)
        else:
            self._queue.add_after(regarding, events.next_at() - self._clock.time())

    async def _send_all(self, events: ObjectEvents) -> bool:
        """Send what is due; return whether nothing is left for a later attempt."""
        while due := next(events.due(self._clock.time(), at_once=self._flushing), None):
            key, series = due
            try:
                await self._try(key, series)
            except KubeError as error:
                if _is_final(error):
                    events.succeeded()
                    self._reject(key, series, error)
                    continue
                for each in events.failed(key, self._clock.time(), self._rng):
                    self._reject(each, self._series[each], error)
                return False
            except Exception as error:  # noqa: BLE001  one event must not end the task
                self.statistics.failed += 1
                _log.error("event.dropped", regarding=key.regarding, exc_info=error)
                self._drop(key)
            else:
                events.succeeded()
        return True

    async def _try(self, key: SeriesKey, series: EventSeries) -> None:
        count = series.count
        async with while_leading(self._fence):
            await self._send(series, count)
        if series.sent == 0:
            self.statistics.sent += 1
            self.statistics.unsent -= self._series.get(key) is series  # else it was discarded
        series.sent, series.sent_at, series.tries = count, self._clock.time(), 0

    async def _send(self, series: EventSeries, count: int) -> None:
        client = self._client.for_flow(f"events/{series.namespace}")
        repeated = {"count": count, "lastObservedTime": series.last_time}
        if series.sent:
            try:
                await client.merge_patch(
                    EVENTS, series.namespace, series.name, {"series": repeated}
                )
            except NotFound:
                pass  # the event expired on the server: create it again
            else:
                return
        body = {**series.body, "series": repeated} if count > 1 else series.body
        try:
            await client.create(EVENTS, series.namespace, body)
        except AlreadyExists:
            return  # an earlier attempt, whose response was lost

    def _reject(self, key: SeriesKey, series: EventSeries, error: KubeError) -> None:
        if not _namespace_terminating(error):
            self.statistics.failed += 1
            _log.warning("event.dropped", name=series.name, error=str(error))
        self._drop(key)

    def _drop(self, key: SeriesKey) -> None:
        series = self._series.pop(key, None)
        if series is None:
            return
        self._objects[key.regarding].remove(key)
        if series.sent == 0:
            self.statistics.unsent -= 1


def _most_unsent(event: Event) -> int:
    return MOST_UNSENT_WITH_WARNINGS if event.type == "Warning" else MOST_UNSENT


def clip(text: str, limit: int) -> str:
    """Return `text` cut to at most `limit` bytes of UTF-8, never inside a character."""
    return text.encode()[:limit].decode(errors="ignore")


def shorten(text: str, limit: int) -> str:
    """Return `text`, without its middle if it is over `limit` bytes: remedies are at the end."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    end = encoded[-limit // 4 :].decode(errors="ignore")
    return f"{clip(text, limit - len(_GAP) - len(end.encode()))}{_GAP}{end}"


def _folded(note: str) -> str:
    """Return the folded note, cut after folding, so that varying lengths do not move its end."""
    return clip(fold(clip(note, 4 * LONGEST_NOTE)), LONGEST_NOTE)


def _is_final(error: KubeError) -> bool:
    if not isinstance(error, StatusError) or isinstance(error, TooManyRequests):
        return False
    return error.status.code < 500


def _namespace_terminating(error: KubeError) -> bool:
    return isinstance(error, Forbidden) and any(
        reason == "NamespaceTerminating" for reason, _ in error.status.causes
    )
