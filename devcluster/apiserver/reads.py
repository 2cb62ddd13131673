"""The verbs that read: get, list with its revisions, pages and snapshots, and watch."""

from __future__ import annotations

import asyncio
import base64
import binascii
import random
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass

import msgspec

from devcluster.apiserver.messages import JSON, ApiResponse, bytes_response
from devcluster.apiserver.objects import Json, encode
from devcluster.apiserver.options import ListOptions, Selection, revision
from devcluster.apiserver.resource_call import Representation, ResourceCall
from devcluster.apiserver.status import (
    ApiError,
    bad_request,
    expired,
    not_found,
    too_large_resource_version,
)
from devcluster.apiserver.store import ObjectStore, Stored, StoredEvent, Table

# WATCH: the log of a table as a stream of events.
#
# A watch is a position in the table's log. Writers append to the log and wake waiting watches, so
# a slow reader costs nothing but its position in the log.


BOOKMARK_PERIOD = 60.0
"""Seconds between bookmarks."""
LAST_BOOKMARK = 2.0
"""Seconds before its end at which a watch gets a last bookmark."""
BATCH = 256
"""Maximum events in one chunk."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(slots=True)
class Watch:
    """One watch request.

    Attributes:
        since: revision to start from, None for now.
        lifetime: seconds until the stream ends.
    """

    store: ObjectStore
    table: Table
    namespace: str
    selection: Selection
    representation: Representation
    options: ListOptions
    since: int | None
    lifetime: float
    clock: asyncio.AbstractEventLoop
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


_EXPIRED_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class ContinueToken(msgspec.Struct, frozen=True):
    """The position at which a paged list continues.

    Attributes:
        rv: revision of the snapshot; -1 for an inconsistent continuation at the current one.
        start: first key that may follow.
    """

    start: str
    rv: int = -1
    v: str = "meta.k8s.io/v1"

    def __str__(self) -> str:
        """Return the token for clients."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> ContinueToken:
        """Read a token.

        Raises:
            ApiError: 400, this server did not issue it.
        """
        try:
            padded = text + "=" * (-len(text) % 4)
            return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=cls)
        except (binascii.Error, msgspec.DecodeError, ValueError):
            raise bad_request(
                "invalid continue token: continue key is not valid: not one of this server's"
            ) from None


def list_page(
    store: ObjectStore, table: Table, namespace: str, selection: Selection, options: ListOptions
) -> tuple[list[Stored], Json]:
    """Return one page, or the whole list, with its list metadata.

    Raises:
        ApiError: 400 for a bad combination, 410 for a compacted revision, 504 for one in the
            future.
    """
    start, at = _start(store, table, options)
    rows = table.at(at, namespace)
    if start:
        rows = [row for row in rows if row[0] >= start]
    chosen = [row for row in rows if selection.matches(row[1].object)] if selection else rows
    metadata: Json = {"resourceVersion": str(at)}
    limit = 0 if options.revision == 0 else options.limit
    if 0 < limit < len(chosen):
        metadata["continue"] = str(ContinueToken(start=chosen[limit - 1][0] + "\0", rv=at))
        if not selection:
            metadata["remainingItemCount"] = len(chosen) - limit
        chosen = chosen[:limit]
    return [item for _, item in chosen], metadata


def _start(store: ObjectStore, table: Table, options: ListOptions) -> tuple[str, int]:
    if options.continue_token:
        return _continuation(store, table, options)
    asked = options.revision
    if asked is None or asked == 0:
        return "", store.revision
    if asked > store.revision:
        raise too_large_resource_version(asked, store.revision)
    exact = options.match == "Exact" or (not options.match and options.limit)
    if not exact:
        return "", store.revision
    if asked < table.compacted:
        raise expired("The resourceVersion for the provided list is too old.")
    return "", asked


def _continuation(store: ObjectStore, table: Table, options: ListOptions) -> tuple[str, int]:
    if options.revision is not None:
        raise bad_request("specifying resource version is not allowed when using continue")
    token = ContinueToken.parse(options.continue_token)
    if token.rv < 0:
        return token.start, store.revision
    if token.rv < table.compacted:
        raise expired(_EXPIRED_CONTINUE, str(ContinueToken(start=token.start)))
    return token.start, token.rv


MIN_WATCH = 1800.0
"""Minimum seconds that a watch without `timeoutSeconds` lives; at most twice as long."""


class Reads:
    """Answers requests that read."""

    def __init__(
        self, store: ObjectStore, *, clock: asyncio.AbstractEventLoop, rng: random.Random
    ) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._stopping = False

    def stop(self) -> None:
        """End all watches."""
        self._stopping = True
        for table in self._store.tables.values():
            table.wake()

    def get(self, call: ResourceCall) -> ApiResponse:
        """Return one object.

        Raises:
            ApiError: there is none, or it has no such representation.
        """
        representation = call.representation()
        try:
            asked = revision(call.request.query)
        except ApiError as error:
            why = error.message.removeprefix("invalid resource version: ")
            raise ApiError(500, "", why) from None
        stored = self._store.table(call.resource.table).items.get(call.key)
        if stored is None:
            raise not_found(call.resource.name, call.where.name)
        if asked and asked > self._store.revision:
            raise too_large_resource_version(asked, self._store.revision)
        return bytes_response(200, representation.one(stored))

    def list(self, call: ResourceCall) -> ApiResponse:
        """Return a page of objects.

        Raises:
            ApiError: the query is unusable.
        """
        representation = call.representation()
        options = ListOptions.parse(call.request.query)
        items, metadata = list_page(
            self._store,
            self._store.table(call.resource.table),
            call.where.namespace,
            call.selection(),
            options,
        )
        return bytes_response(200, representation.many(items, metadata))

    def watch(self, call: ResourceCall) -> ApiResponse:
        """Return a stream of events.

        Raises:
            ApiError: the query is unusable.
        """
        representation = call.representation()
        options = ListOptions.parse(call.request.query)
        watch = Watch(
            store=self._store,
            table=self._store.table(call.resource.table),
            namespace=call.where.namespace,
            selection=call.selection(),
            representation=representation,
            options=options,
            since=options.revision,
            lifetime=float(options.timeout or MIN_WATCH * (1 + self._rng.random())),
            clock=self._clock,
            stopping=lambda: self._stopping,
        )
        return ApiResponse(200, watch.chunks(), {"content-type": JSON})
