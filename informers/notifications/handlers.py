"""Dispatches notifications: each handler has its own queue and task (INF-44 to INF-51).

Handlers are synchronous: they map an object to keys and enqueue those. An exception in a handler
is logged and counted, and the item counts as handled.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias

from informers.errors import InformerStopped
from informers.notifications.processor import Added, Deleted, Notification, Updated
from informers.objects import T, T_contra, Tombstone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_log = logging.getLogger(__name__)
_BATCH = 200


class Handler(Protocol[T_contra]):
    """Receives notifications of changes, in the server's order and never concurrently."""

    def on_add(self, obj: T_contra, *, initial: bool) -> None:
        """Handle a new key; `initial` if it belongs to the first list."""
        ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """Handle a changed object; the same object twice is a resync."""
        ...

    def on_delete(self, obj: T_contra | Tombstone[T_contra]) -> None:
        """Handle a deletion; a tombstone if the deletion itself was not observed."""
        ...


@dataclass(frozen=True, slots=True)
class HandlerStatistics:
    """Statistics of one handler.

    Attributes:
        name: name of the handler.
        has_synced: whether it has handled all initial items.
        queued: number of queued items.
        failures: number of items on which it raised.
    """

    name: str
    has_synced: bool
    queued: int
    failures: int


@dataclass(frozen=True, slots=True)
class _EndOfInitialItems:
    """Follows the last initial item in the queue."""


_Item: TypeAlias = Notification[T] | _EndOfInitialItems


class HandlerRegistration(Generic[T]):
    """One handler of one informer, created by `SharedInformer.add_handler`.

    Args:
        handler: the handler.
        name: for logs and statistics.
        backlog: queue length above which the reader waits.
        on_removed: called once, on removal.
    """

    def __init__(
        self,
        handler: Handler[T],
        name: str,
        backlog: int,
        on_removed: Callable[[HandlerRegistration[T]], None],
    ) -> None:
        self.name = name
        self._handler = handler
        self._backlog = backlog
        self._on_removed = on_removed
        self._queue: deque[_Item[T]] = deque()
        self._filled = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._has_synced = False
        self._settled = asyncio.Event()
        self._closed = False
        self._failures = 0

    @property
    def has_synced(self) -> bool:
        """True if the informer has synced and this handler has handled all initial items."""
        return self._has_synced

    async def wait_for_sync(self) -> None:
        """Wait for `has_synced`.

        Raises:
            InformerStopped: the handler was removed or the informer ended before that.
        """
        await self._settled.wait()
        if not self._has_synced:
            raise InformerStopped(f"handler {self.name} ended before it had synced")

    def statistics(self) -> HandlerStatistics:
        """Return the current statistics."""
        return HandlerStatistics(self.name, self.has_synced, len(self._queue), self._failures)

    def remove(self) -> None:
        """Remove the handler at once. Idempotent; the handler itself may call it."""
        if self._closed:
            return
        self._closed = True
        self._on_removed(self)
        self._queue.clear()
        for waited_for in (self._filled, self._has_room, self._settled):
            waited_for.set()

    def enqueue(self, items: Iterable[Notification[T]]) -> None:
        """Append notifications. For the informer only."""
        self._queue.extend(items)
        self._filled.set()
        if len(self._queue) > self._backlog:
            self._has_room.clear()

    def end_initial_items(self) -> None:
        """Mark the end of the first list; later calls have no effect. For the informer only."""
        self._queue.append(_EndOfInitialItems())
        self._filled.set()

    def resync(self, objects: Iterable[T]) -> None:
        """Enqueue all objects again, as updates. For the informer only."""
        self.enqueue([Updated(obj, obj) for obj in objects])

    async def wait_for_capacity(self) -> None:
        """Wait until the queue is not longer than the backlog."""
        await self._has_room.wait()

    async def run(self) -> None:
        """Dispatch items until removed. For the informer only."""
        while not self._closed:
            await self._filled.wait()
            self._filled.clear()
            while self._queue:
                self.drain(_BATCH)
                await asyncio.sleep(0)

    def drain(self, limit: int | None = None) -> None:
        """Dispatch at most `limit` items now, all if None."""
        while self._queue and limit != 0:
            self._dispatch(self._queue.popleft())
            limit = limit - 1 if limit is not None else None
        if len(self._queue) <= self._backlog:
            self._has_room.set()

    def _dispatch(self, item: _Item[T]) -> None:
        try:
            match item:
                case Added(obj, initial):
                    self._handler.on_add(obj, initial=initial)
                case Updated(old, new):
                    self._handler.on_update(old, new)
                case Deleted(obj):
                    self._handler.on_delete(obj)
                case _EndOfInitialItems():
                    self._has_synced = True
                    self._settled.set()
        except Exception:  # noqa: BLE001  a handler may raise anything; other items must not suffer
            self._failures += 1
            _log.exception("handler %s failed", self.name)
