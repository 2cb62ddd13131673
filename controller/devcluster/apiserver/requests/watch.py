"""WATCH: the log of a table as a stream of events.

A watch is a position in the table's log. Writers append to the log and wake waiting watches, so
a slow reader costs nothing but its position in the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from controller.devcluster.apiserver.objects import encode
from controller.devcluster.apiserver.status import ApiError, expired, too_large_resource_version
from controller.devcluster.apiserver.store import Stored

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Callable, Iterator

    from controller.devcluster.apiserver.objects import Json
    from controller.devcluster.apiserver.options import ListOptions
    from controller.devcluster.apiserver.requests.resource_call import Representation
    from controller.devcluster.apiserver.selectors import Selection
    from controller.devcluster.apiserver.store import ObjectStore, StoredEvent, Table


BOOKMARK_PERIOD = 60.0
"""Seconds between bookmarks."""
LAST_BOOKMARK = 2.0
"""Seconds before its end at which a watch gets a last bookmark."""
BATCH = 256
"""Maximum events in one chunk."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Clock(Protocol):
    """The time of an event loop."""

    def time(self) -> float:
        """Return monotonic seconds."""
        ...

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """Call back at a moment of `time()`."""
        ...


@dataclass(slots=True)
class Watch:
    """One watch request.

    Attributes:
        store: store with the revision.
        table: the watched table.
        namespace: one namespace, or empty for all.
        selection: the selected objects.
        representation: their representation.
        options: bookmarks, initial events.
        since: revision to start from, None for now.
        lifetime: seconds until the stream ends.
        clock: measures the lifetime and the bookmarks.
        stopping: returns whether the server shuts down.
    """

    store: ObjectStore
    table: Table
    namespace: str
    selection: Selection
    representation: Representation
    options: ListOptions
    since: int | None
    lifetime: float
    clock: Clock
    stopping: Callable[[], bool]
    _position: int = 0
    _floor: int = 0
    _sent: bool = False

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the stream; it ends with its lifetime, a lost revision, or a changed schema."""
        readings = self.table.readings
        deadline = self.clock.time() + self.lifetime
        next_bookmark = _next_bookmark(self.clock.time(), deadline)
        try:
            for chunk in self._opening():
                yield chunk
        except ApiError as error:
            yield _error(error)
            return
        while not self.stopping() and self.table.readings == readings:
            if self._position < self.table.start:
                yield _error(self._too_old(self.store.revision))
                return
            if chunk := self._pending():
                yield chunk
                continue
            now = self.clock.time()
            if now >= deadline:
                return
            if now >= next_bookmark:
                next_bookmark = _next_bookmark(now, deadline)
                if self.options.bookmarks and self.store.revision >= self._floor:
                    yield self._bookmark({})
                continue
            await self._change_or(min(next_bookmark, deadline))
        while self._position >= self.table.start and (chunk := self._pending()):
            yield chunk

    async def _change_or(self, when: float) -> None:
        change = self.table.next_change()
        timer = self.clock.call_at(when, _resolve, change)
        try:
            await change
        finally:
            timer.cancel()

    def _opening(self) -> Iterator[bytes]:
        """Yield the initial events: existing objects and the bookmark after them."""
        start = self.since
        wanted = self.options.initial_events
        if start and not wanted:
            if start < self.table.compacted:
                raise self._too_old(start)
            self._position = self.table.position_after(start)
            self._floor = start  # it may lie in the future, if the database was restored
            return
        if start and start > self.store.revision:
            raise too_large_resource_version(start, self.store.revision)
        self._position = self.table.end
        existing = self.table.now(self.namespace) if wanted is not False else []
        lines = [
            self._line("ADDED", item) for _, item in existing if self.selection.matches(item.object)
        ]
        if wanted and self.options.bookmarks:
            lines.append(self._bookmark({INITIAL_EVENTS_END: "true"}))
        for first in range(0, len(lines), BATCH):
            yield b"".join(lines[first : first + BATCH])

    def _pending(self) -> bytes:
        """Return the next batch of the log that this watch selects."""
        lines: list[bytes] = []
        seen = 0
        for event in self.table.events_from(self._position):
            seen += 1
            if event.revision > self._floor and (line := self._seen(event)):
                lines.append(line)
                if len(lines) == BATCH:
                    break
        self._position += seen
        return b"".join(lines)

    def _seen(self, event: StoredEvent) -> bytes | None:
        """Return the line for an event; an object that leaves the selection counts as deleted."""
        if self.namespace and not event.key.startswith(f"{self.namespace}/"):
            return None
        if not self.selection:
            return self._line(event.type, event.current)
        before = event.previous is not None and self.selection.matches(event.previous.object)
        if event.type == "DELETED":
            return self._line("DELETED", event.current) if before else None
        after = self.selection.matches(event.current.object)
        if before and not after:
            return self._line("DELETED", _left(event))
        if after:
            return self._line("MODIFIED" if before else "ADDED", event.current)
        return None

    def _line(self, kind: str, stored: Stored) -> bytes:
        object_ = self.representation.one(stored, first=not self._sent)
        self._sent = True
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), object_)

    def _bookmark(self, annotations: Json) -> bytes:
        metadata: Json = {"resourceVersion": str(self.store.revision)}
        if annotations:
            metadata["annotations"] = annotations
        object_ = self.representation.bookmark(metadata, first=not self._sent)
        self._sent = True
        return b'{"type":"BOOKMARK","object":%s}\n' % object_

    def _too_old(self, revision: int) -> ApiError:
        return expired(f"too old resource version: {revision} ({self.table.compacted})")


def _error(error: ApiError) -> bytes:
    return b'{"type":"ERROR","object":%s}\n' % encode(error.body())


def _next_bookmark(now: float, deadline: float) -> float:
    """Return the time in a period, or shortly before the end if that comes first."""
    regular, last = now + BOOKMARK_PERIOD, deadline - LAST_BOOKMARK
    return last if now < last < regular else regular


def _left(event: StoredEvent) -> Stored:
    """Return the last selected state of an object, at the revision at which it left."""
    assert event.previous is not None
    last = event.previous.fresh()
    last["metadata"]["resourceVersion"] = str(event.revision)
    return Stored(last, event.revision)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
