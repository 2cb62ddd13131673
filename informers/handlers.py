"""Handlers of changes, called synchronously in the server's order (INF-34, INF-45, INF-47)."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Generic, Protocol

from informers.objects import T, T_contra, Tombstone
from informers.processor import Added, Deleted, Notification, Updated

if TYPE_CHECKING:
    from collections.abc import Iterable

_log = logging.getLogger(__name__)


class Handler(Protocol[T_contra]):
    """Receives notifications of changes, in the server's order and never concurrently.

    Handlers map an object to keys and enqueue those; they do no work of their own.
    """

    def on_add(self, obj: T_contra, *, initial: bool) -> None:
        """Handle a new key; `initial` if it belongs to the first list."""
        ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """Handle a changed object."""
        ...

    def on_delete(self, obj: T_contra | Tombstone[T_contra]) -> None:
        """Handle a deletion; a tombstone if the deletion itself was not observed."""
        ...


class Handlers(Generic[T]):
    """The handlers of one informer. An exception in one is logged and counted, and disturbs none.

    Attributes:
        failures: exceptions by the handler's name.
    """

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self._handlers: list[tuple[str, Handler[T]]] = []

    def add(self, handler: Handler[T], name: str, present: Iterable[T]) -> None:
        """Add a handler, which first receives what is present as an initial addition."""
        self.failures[name] += 0  # so that the metric exists before the first failure
        self._handlers.append((name, handler))
        for obj in present:
            self._dispatch(name, handler, Added(obj, initial=True))

    def notify(self, notifications: Iterable[Notification[T]]) -> None:
        """Call all handlers with each notification."""
        for notification in notifications:
            for name, handler in self._handlers:
                self._dispatch(name, handler, notification)

    def _dispatch(self, name: str, handler: Handler[T], notification: Notification[T]) -> None:
        try:
            match notification:
                case Added(obj, initial):
                    handler.on_add(obj, initial=initial)
                case Updated(old, new):
                    handler.on_update(old, new)
                case Deleted(obj):
                    handler.on_delete(obj)
        except Exception:  # noqa: BLE001  a handler may raise anything; other items must not suffer
            self.failures[name] += 1
            _log.exception("handler %s failed", name)
