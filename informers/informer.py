"""The shared informer: one reflector, one store, any number of handlers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Generic

from informers.codec import Codec
from informers.errors import (
    AlreadyStarted,
    HistoryChanged,
    InformerStopped,
    InvalidResourceVersion,
    SourceError,
)
from informers.listing import Clock, Source
from informers.processor import Handler, Handlers, Notification, Processor
from informers.reflector import Reflector
from informers.states import ReflectorStatistics
from informers.store import (
    IndexFunction,
    Lister,
    Replaced,
    Store,
    T,
    Undecodable,
    WatchEvent,
    is_comparable,
)


@dataclass(slots=True, kw_only=True)
class InformerStatistics(ReflectorStatistics):
    """Statistics of one informer: of its reflector, its store and its handlers.

    Attributes:
        state: name of the reflector's state, `Watching`.
        has_synced: whether there was a complete list.
        quarantined: objects that do not fit their type.
        handler_failures: exceptions of handlers, by name.
    """

    name: str
    description: str
    state: str
    has_synced: bool
    resource_version: str
    objects: int
    quarantined: int
    handler_failures: Mapping[str, int]


class InformerMetrics:
    """The metrics of one informer; the base class ignores them."""

    def started(self, statistics: Callable[[], InformerStatistics], /) -> None:
        """Record that the informer exists; `statistics` reads its state."""

    def processed(self, seconds: float, /) -> None:
        """Record the time in which one event or list was applied to the store."""

    def stopped(self) -> None:
        """Record that the informer has ended."""


class SharedInformer(Generic[T]):
    """Mirrors a collection into an indexed store and notifies handlers of changes.

    Args:
        streaming: whether it begins with a streaming list, if the server supports that.

    Attributes:
        lister: the read side of the store.
        present: its `get`, for the reflector.
        quarantined: by key, the objects that do not fit their type. The store shows what is left
            of them if their type can hold that, otherwise their last valid state.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        codec: Codec[T],
        *,
        clock: Clock,
        rng: random.Random,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        streaming: bool = True,
        metrics: InformerMetrics | None = None,
    ) -> None:
        self.name = name
        self._source = source
        self._clock = clock
        self._metrics = metrics or InformerMetrics()
        self._store: Store[T] = Store(indexes)
        self._processor = Processor(self._store)
        self._reflector = Reflector(
            source,
            codec,
            self,
            clock=clock,
            rng=rng,
            streaming=streaming,
            on_error=self._report_error,
        )
        self.lister: Lister[T] = self._store
        self.present = self._store.get
        self.quarantined: Mapping[str, Undecodable] = MappingProxyType(self._processor.quarantined)
        self._handlers: Handlers[T] = Handlers()
        self._on_change: list[Callable[[list[Notification[T]], str], None]] = []
        self._on_error: list[Callable[[SourceError], None]] = []
        self._begun = False
        self._stopped = False
        self._synced_or_stopped = asyncio.Event()
        self._replaced_or_stopped = asyncio.Event()
        self._metrics.started(self.statistics)

    @property
    def has_synced(self) -> bool:
        """True if the store has held a complete list."""
        return bool(self._store.resource_version)

    @property
    def stopped(self) -> bool:
        """True if `run` has ended."""
        return self._stopped

    @property
    def resource_version(self) -> str:
        """Revision of the store."""
        return self._store.resource_version

    @property
    def quorum_read(self) -> float | None:
        """Time at which the latest quorum read began that the store has held; None for never."""
        return self._reflector.statistics.quorum_read

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index, at any time; it is filled at once.

        Raises:
            IndexFunctionError: the name is taken, or the function raised on an object.
        """
        self._store.add_index(name, function)

    def add_handler(self, handler: Handler[T], *, name: str = "") -> None:
        """Add a handler, at any time. It first receives every object in the store.

        Logs and metrics call it `name`, or after its class.

        Raises:
            InformerStopped: `run` has ended.
        """
        if self._stopped:
            raise InformerStopped(f"{self.name} has stopped")
        self._handlers.add(handler, name or type(handler).__qualname__, self._store.list())

    def on_change(self, callback: Callable[[list[Notification[T]], str], None]) -> None:
        """Call back with the changes of each event or list, and the revision that it has led to.

        The store's contents are then at that revision, no other task has run in between, and no
        handler has been called. An exception in a callback ends `run`.
        """
        self._on_change.append(callback)

    def on_error(self, callback: Callable[[SourceError], None]) -> None:
        """Call back with each failure to list or watch."""
        self._on_error.append(callback)

    async def run(self) -> None:
        """List and watch until cancelled.

        Raises:
            AlreadyStarted: a second call.
            HistoryChanged: the server went back in time.
            InvalidResourceVersion: the server's revisions cannot be compared.
        """
        if self._begun:
            raise AlreadyStarted(f"{self.name} was run before")
        self._begun = True
        try:
            await self._reflector.run()
        finally:
            self._stop()

    async def wait_for_sync(self) -> None:
        """Wait until the store holds a complete list.

        Raises:
            InformerStopped: `run` ended before that. The message gives the last error.
        """
        await self._synced_or_stopped.wait()
        if not self.has_synced:
            reason = self._reflector.statistics.last_error
            raise InformerStopped(f"{self.name} stopped before it had synced: {reason}")

    def advance(self, revision: str) -> None:
        """Skip events up to a revision at which the store's contents are known to be the same.

        A watch that lags behind would otherwise replay objects that have come and gone since.
        """
        self._store.advance(revision)
        self._publish([])

    def relist(self, sign: str) -> None:
        """List again at quorum, because of a sign that the server went back in time.

        The watch of such a server is silent about everything up to the revision held.
        """
        self._reflector.relist(sign)

    async def reread(self, sign: str) -> None:
        """List again, because objects may have changed without their revisions.

        That happens when a definition changes: the server drops or shows other fields. Returns
        when the store has another list, or when this informer has stopped.
        """
        self._processor.redefined = True
        self._reflector.relist(sign)
        await self._replaced_or_stopped.wait()

    def statistics(self) -> InformerStatistics:
        """Return the current statistics."""
        seen = self._reflector.statistics
        return InformerStatistics(
            **{each.name: copy(getattr(seen, each.name)) for each in fields(seen)},
            name=self.name,
            description=self._source.description,
            state=type(self._reflector.state).__name__,
            has_synced=self.has_synced,
            resource_version=self._store.resource_version,
            objects=len(self._store),
            quarantined=len(self.quarantined),
            handler_failures=dict(self._handlers.failures),
        )

    def replace(self, replaced: Replaced[T], /) -> None:
        """Apply a complete list. For the reflector only.

        Raises:
            InvalidResourceVersion: its revision cannot be compared with others.
            HistoryChanged: it contradicts the store, which stays as it is.
        """
        began = self._clock.time()
        if not is_comparable(replaced.revision):
            raise InvalidResourceVersion(f"{self._source.description}: {replaced.revision!r}")
        if sign := self._processor.contradiction(replaced):
            raise HistoryChanged(f"{self._source.description}: {sign}")
        self._publish(self._processor.replace(replaced))
        self._metrics.processed(self._clock.time() - began)
        self._synced_or_stopped.set()
        self._replaced_or_stopped.set()
        self._replaced_or_stopped = asyncio.Event()

    def apply(self, event: WatchEvent[T], /) -> None:
        """Apply one event. For the reflector only."""
        began = self._clock.time()
        self._publish(self._processor.apply(event))
        self._metrics.processed(self._clock.time() - began)

    def shows(self, event: WatchEvent[T], /) -> bool:
        """Return whether the event tells nothing new. For the reflector only."""
        return self._processor.shows(event)

    def _publish(self, notifications: list[Notification[T]]) -> None:
        for callback in self._on_change:
            callback(notifications, self._store.resource_version)
        if notifications:
            self._handlers.notify(notifications)

    def _report_error(self, error: SourceError) -> None:
        for callback in self._on_error:
            callback(error)

    def _stop(self) -> None:
        """Release all waiters."""
        self._stopped = True
        self._synced_or_stopped.set()
        self._replaced_or_stopped.set()
        self._metrics.stopped()
