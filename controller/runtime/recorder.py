"""Events for people, as events.k8s.io/v1 (EVT-1, EVT-7).

Recording is synchronous, never waits and never raises. Equal events become one object with a
series; what makes two events equal includes the note, so that no note is ever hidden (EVT-6).

A series is sent level-triggered: `record` only raises a count, and a work queue sends it to the
server: at once for the first two occurrences, then every half hour, and at the end. The series of
one object take turns.
"""

from __future__ import annotations

import hashlib
import random
import re
import uuid
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from controller.apimachinery.conditions import rfc3339_micro
from controller.apimachinery.redaction import fold
from controller.kube.client import Client
from controller.kube.errors import (
    AlreadyExists,
    Forbidden,
    KubeError,
    NotFound,
    StatusError,
    TooManyRequests,
)
from controller.kube.objects import ObjectMeta
from controller.kube.resources import EVENTS, Resource
from controller.runtime.election import AlwaysLeader, Fence, while_leading
from controller.runtime.event_series import (
    LONGEST_FIELD,
    LONGEST_NOTE,
    EventSeries,
    ObjectTurns,
    RecorderStatistics,
    SeriesKey,
    SpamFilter,
    event_body,
)
from controller.runtime.plan import Event
from workqueue import Clock, Workers, WorkQueue

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
"""Events sent at the same time, apart from those whose requests take long."""

PATIENCE = 0.5
"""Seconds for which a slow request delays the next event."""

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_log = structlog.stdlib.get_logger("manta.events")


class Recorder:
    """Records events and sends them in the background.

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
        self._queue: WorkQueue[SeriesKey] = WorkQueue(clock=clock, rng=rng)
        self._series: OrderedDict[SeriesKey, EventSeries] = OrderedDict()
        self._turns: dict[str, ObjectTurns] = {}  # by what the events regard
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
        self._queue.add(key)

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
        for key in self._series:
            self._queue.add(key)
        await self._queue.drain(self._clock.time() + FLUSH)
        self._queue.close()
        if left := sum(each.sent < each.count for each in self._series.values()):
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
        namespace = meta.namespace or "default"
        encoded = msgspec.json.encode(body)
        self._series[key] = EventSeries(namespace, name, encoded, self._clock.time(), now)
        self.statistics.unsent += 1
        while len(self._series) > MOST_REMEMBERED:
            self._drop(*next(iter(self._series.items())))

    def _name(self, of: str) -> str:
        """Return `<object>.<hex nanoseconds>`, or a uuid if that is not a DNS subdomain."""
        nanoseconds = int(self._wall().timestamp() * 1_000_000) * 1000
        self._stamp = max(self._stamp + 1, nanoseconds)
        name = f"{of}.{self._stamp:x}"
        if len(name) <= 253 and _SUBDOMAIN.fullmatch(name):
            return name
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    async def _process(self, key: SeriesKey) -> None:
        series = self._series.get(key)
        if series is None:
            self._forget(key)
            return
        due = series.is_due(self._clock.time()) or (self._flushing and series.sent < series.count)
        if due and not await self._try_in_turn(key, series):
            return
        if turns := self._turns.get(key.regarding):  # it has occurred again: it may wait now
            turns.waiting.pop(key, None)
        over = series.expires_at - self._clock.time()
        if over <= 0:
            self._drop(key, series)
            return
        refresh = series.refresh_at - self._clock.time()
        self._queue.add_after(key, min(over, refresh))

    async def _try_in_turn(self, key: SeriesKey, series: EventSeries) -> bool:
        """Send if it is its turn; return whether the server is up to date. If not, it waits."""
        turns = self._turns.setdefault(key.regarding, ObjectTurns())
        now = self._clock.time()
        if not self._flushing and not turns.is_turn_of(series, now):
            turns.wait(key, series)
            if not turns.busy:
                self._queue.add_after(key, turns.retry_at - now)
            return False
        turns.busy = True
        try:
            await self._try(series, is_current=lambda: self._series.get(key) is series)
        except KubeError as error:
            turns.busy = False
            if _is_final(error):
                self._reject(key, series, error)
                self._end_turns(key.regarding)
            else:
                self._failed(key, series, turns, error)
            return False
        except Exception as error:  # noqa: BLE001  one event must not end the task
            self.statistics.failed += 1
            _log.error("event.dropped", regarding=key.regarding, exc_info=error)
            self._drop(key, series)
            self._end_turns(key.regarding)
            return False
        self._end_turns(key.regarding)
        return True

    async def _try(self, series: EventSeries, *, is_current: Callable[[], bool]) -> None:
        count = series.count
        async with while_leading(self._fence):
            await self._send(series, count)
        if series.sent == 0:
            self.statistics.sent += 1
            self.statistics.unsent -= is_current()  # else it was discarded meanwhile
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
        body: dict[str, Any] = msgspec.json.decode(series.body)
        if count > 1:
            body["series"] = repeated
        try:
            await client.create(EVENTS, series.namespace, body)
        except AlreadyExists:
            return  # an earlier attempt, whose response was lost

    def _failed(
        self, key: SeriesKey, series: EventSeries, turns: ObjectTurns, error: KubeError
    ) -> None:
        """Let all series of the object wait, and drop those that have waited too long (EVT-1)."""
        series.tries += 1
        if self._series.get(key) is series:
            turns.wait(key, series)
        for each in turns.failed(self._clock.time(), self._rng):
            self._reject(each, turns.waiting[each], error)
        for each in turns.waiting:
            self._queue.add_after(each, turns.retry_at - self._clock.time())

    def _end_turns(self, regarding: str) -> None:
        """Let all events about an object be sent, because the server has answered."""
        for each in self._turns.pop(regarding, ObjectTurns()).waiting:
            self._queue.add(each)

    def _reject(self, key: SeriesKey, series: EventSeries, error: KubeError) -> None:
        if not _namespace_terminating(error):
            self.statistics.failed += 1
            _log.warning("event.dropped", name=series.name, error=str(error))
        self._drop(key, series)

    def _drop(self, key: SeriesKey, series: EventSeries) -> None:
        if self._series.get(key) is not series:
            return
        del self._series[key]
        if series.sent == 0:
            self.statistics.unsent -= 1
        if turns := self._turns.get(key.regarding):
            turns.waiting.pop(key, None)
            self._queue.add_after(key, turns.forgotten_at - self._clock.time())

    def _forget(self, key: SeriesKey) -> None:
        """Forget the failures of an object of which no event is left."""
        turns = self._turns.get(key.regarding)
        if turns is None or turns.busy:
            return
        left = turns.forgotten_at - self._clock.time()
        if left > 0:
            self._queue.add_after(key, left)
        else:
            del self._turns[key.regarding]


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
