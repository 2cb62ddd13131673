"""A multi-version store: one revision counter, and a table and a bounded log for each resource.

Objects are plain JSON data and never change once stored; every write makes a new version. Revisions
that the log still holds can be watched and listed.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

import msgspec

from devcluster.apiserver.objects import Json

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Stored:
    """One version of one object, with its encodings computed once.

    Attributes:
        object: the object as stored; to be treated as immutable.
        revision: the revision that made this version; `metadata.resourceVersion` says the same.
    """

    __slots__ = ("_encodings", "_written", "object", "revision")

    def __init__(self, object_: Json, revision: int, *, written: Stored | None = None) -> None:
        self.object = object_
        self.revision = revision
        self._written = written
        self._encodings: dict[str, bytes] = {}

    def encoded(self, form: str, make: Callable[[Json], Json]) -> bytes:
        """Return the encoding of one form of this version, computed on first use."""
        body = self._encodings.get(form)
        if body is None:
            body = self._encodings[form] = msgspec.json.encode(make(self.object))
        return body

    def fresh(self) -> Json:
        """Return a deep copy that may be changed."""
        return msgspec.json.decode(self.encoded("stored", _same))

    def read_again(self, read: Callable[[Json], None]) -> Stored:
        """Return this version as `read`, which works in place, makes it from what was written."""
        written = self._written or self
        object_ = written.fresh()
        read(object_)
        return Stored(object_, self.revision, written=written)


def _same(object_: Json) -> Json:
    return object_


class StoredEvent(msgspec.Struct, frozen=True):
    """One transition of the store.

    Attributes:
        table: name of the resource: `pods`, `rayclusters.ray.io`.
        key: `namespace/name`, or `name` of cluster-scoped objects.
        current: the new version; for deletions the last state at the deletion's revision.
    """

    type: EventType
    table: str
    key: str
    revision: int
    current: Stored
    previous: Stored | None


class Table:
    """All objects of one resource and the log of their latest transitions."""

    def __init__(self, name: str, history: int) -> None:
        self.name = name
        self.items: dict[str, Stored] = {}
        self.compacted = 0
        """Revision of the newest transition that the log has forgotten."""
        self.readings = 0
        """The number of times that all watches were ended."""
        self._keys: list[str] = []
        self._log: deque[StoredEvent] = deque()
        self._start = 0
        self._history = history
        self._waiting: dict[asyncio.Future[None], None] = {}  # in order: runs can be replayed

    @property
    def end(self) -> int:
        """Position behind the newest entry of the log."""
        return self._start + len(self._log)

    @property
    def start(self) -> int:
        """Position of the oldest entry of the log that is still held."""
        return self._start

    def position_after(self, revision: int) -> int:
        """Return the position of the first log entry newer than a revision."""
        position = self.end
        for event in reversed(self._log):
            if event.revision <= revision:
                break
            position -= 1
        return position

    def events_from(self, position: int) -> Iterator[StoredEvent]:
        """Yield the log from a position on."""
        return islice(self._log, position - self._start, None)

    def keys(self, namespace: str = "") -> list[str]:
        """Return the keys in order, of one namespace or of all."""
        if not namespace:
            return list(self._keys)
        first = bisect_left(self._keys, f"{namespace}/")
        return self._keys[first : bisect_left(self._keys, f"{namespace}0", first)]

    def now(self, namespace: str = "") -> list[tuple[str, Stored]]:
        """Return the current objects in key order."""
        return [(key, self.items[key]) for key in self.keys(namespace)]

    def at(self, revision: int, namespace: str = "") -> list[tuple[str, Stored]]:
        """Return the objects as of a revision, which must not be older than `compacted`."""
        if not self._log or self._log[-1].revision <= revision:
            return self.now(namespace)
        items = dict(self.items)
        for event in reversed(self._log):
            if event.revision <= revision:
                break
            if event.previous is None:
                del items[event.key]
            else:
                items[event.key] = event.previous
        prefix = f"{namespace}/" if namespace else ""
        return sorted((key, item) for key, item in items.items() if key.startswith(prefix))

    def append(self, event: StoredEvent) -> None:
        """Apply a transition and wake waiting watches."""
        if event.type == "DELETED":
            del self.items[event.key]
            del self._keys[bisect_left(self._keys, event.key)]
        else:
            if event.previous is None:
                insort(self._keys, event.key)
            self.items[event.key] = event.current
        self._log.append(event)
        if len(self._log) > self._history:
            self._forget_oldest()
        self.wake()

    def compact(self, revision: int) -> None:
        """Drop all transitions up to a revision."""
        while self._log and self._log[0].revision <= revision:
            self._forget_oldest()
        self.compacted = max(self.compacted, revision)

    def read_again(self, revision: int, read: Callable[[Json], None]) -> None:
        """Serve all objects as `read` makes them from what was written, at their revisions.

        This is what a changed schema does: the objects in etcd stay as they are until the next
        write, all watches end, and the history up to `revision` is lost.
        """
        self.items = {key: item.read_again(read) for key, item in self.items.items()}
        self.compact(revision)
        self.end_watches()

    def end_watches(self) -> None:
        """End all watches, as the removal of a definition does."""
        self.readings += 1
        self.wake()

    def _forget_oldest(self) -> None:
        self.compacted = self._log.popleft().revision
        self._start += 1

    def wake(self) -> None:
        """Wake all waiting watches."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def next_change(self) -> asyncio.Future[None]:
        """Return a future that is done at the next change of the table."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        future.add_done_callback(lambda done: self._waiting.pop(done, None))
        return future


@dataclass(slots=True)
class ObjectStore:
    """Tables by name under one revision counter."""

    history: int = 4096
    revision: int = 1
    on_write: list[Callable[[StoredEvent], None]] = field(
        default_factory=list["Callable[[StoredEvent], None]"]
    )
    tables: dict[str, Table] = field(default_factory=dict[str, Table])
    _undelivered: deque[StoredEvent] = field(default_factory=deque["StoredEvent"])

    def table(self, name: str) -> Table:
        """Return the table of a resource; create it on first use."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = Table(name, self.history)
            table.compacted = self.revision
        return table

    def put(self, table_name: str, key: str, object_: Json) -> Stored:
        """Store a new version. The object now belongs to the store."""
        table = self.table(table_name)
        previous = table.items.get(key)
        current = self._next(object_)
        kind: EventType = "MODIFIED" if previous else "ADDED"
        self._commit(table, StoredEvent(kind, table_name, key, current.revision, current, previous))
        return current

    def remove(self, table_name: str, key: str, last: Json | None = None) -> Stored:
        """Delete an object; `last` is its final state if that differs from what is stored."""
        table = self.table(table_name)
        previous = table.items[key]
        current = self._next(previous.fresh() if last is None else last)
        self._commit(
            table, StoredEvent("DELETED", table_name, key, current.revision, current, previous)
        )
        return current

    def compact(self) -> None:
        """Drop all history; watches and lists from older revisions answer 410 from now on."""
        for table in self.tables.values():
            table.compact(self.revision)

    def _next(self, object_: Json) -> Stored:
        self.revision += 1
        object_["metadata"]["resourceVersion"] = str(self.revision)
        return Stored(object_, self.revision)

    def _commit(self, table: Table, event: StoredEvent) -> None:
        table.append(event)
        self._undelivered.append(event)
        if len(self._undelivered) > 1:
            return  # a callback wrote this event; the loop below delivers it in order
        try:
            while self._undelivered:
                for callback in tuple(self.on_write):
                    callback(self._undelivered[0])
                self._undelivered.popleft()
        finally:
            self._undelivered.clear()  # a failing callback must not stop later deliveries
