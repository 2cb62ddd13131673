"""Applies events and lists to the store and returns notifications.

Everything is synchronous: no other task can observe a state between a store write, its index
updates, its revision and its notifications.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeAlias

from msgspec import Struct

from informers.errors import IndexFunctionError
from informers.store import (
    ApiObject,
    Bookmark,
    Ignored,
    Removed,
    Replaced,
    Store,
    T,
    T_co,
    Undecodable,
    Upserted,
    WatchEvent,
    is_newer,
    key_of,
    revision_of,
)


class Added(Struct, Generic[T_co], frozen=True):
    """A new key. `initial`: it belongs to the first list."""

    object: T_co
    initial: bool = False


class Updated(Struct, Generic[T_co], frozen=True):
    """A known key with the same uid."""

    old: T_co
    new: T_co


class Deleted(Struct, Generic[T_co], frozen=True):
    """A deletion. If it was not observed, `object` may be older than the final state."""

    object: T_co


Notification: TypeAlias = Added[T] | Updated[T] | Deleted[T]


class Processor(Generic[T]):
    """The only writer of a store.

    Attributes:
        quarantined: by key, the objects that cannot be decoded. The store shows their last valid
            state, if there was one.
    """

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self.quarantined: dict[str, Undecodable] = {}
        self.redefined = False

    def apply(self, event: WatchEvent[T]) -> list[Notification[T]]:
        """Apply one event of a watch."""
        match event:
            case Upserted(obj):
                return self._upsert(obj)
            case Removed(obj):
                return self._remove(obj)
            case Bookmark(revision):
                self._store.advance(revision)
                return []
            case Undecodable():
                return self._quarantine(event)
            case Ignored():
                return []

    def shows(self, event: WatchEvent[T]) -> bool:
        """Return whether the store shows what an event tells of its object, or something later."""
        match event:
            case Upserted(obj) | Removed(obj):
                key = key_of(obj)
            case Undecodable(key):
                pass
            case Bookmark() | Ignored():
                return True
        removed = isinstance(event, Removed) or (isinstance(event, Undecodable) and event.removed)
        known, odd = self._store.get(key), self.quarantined.get(key)
        if odd is not None:
            return not is_newer(revision_of(event), odd.revision)
        if known is not None:
            return not is_newer(revision_of(event), known.metadata.resource_version)
        return removed

    def contradiction(self, replaced: Replaced[T]) -> str:
        """Return what shows that a list continues another history; empty if nothing does.

        The store is the state at its revision, so it holds whatever has not changed since, unless
        it is known to lack something. A database that was restored may hold something else, and its
        revision may be higher.
        """
        held = self._store.resource_version
        for obj in () if replaced.fills_gaps else replaced.objects:
            key, revision = key_of(obj), obj.metadata.resource_version
            if is_newer(revision, held) or key in self.quarantined:
                continue
            known = self._store.get(key)
            if known is None or known.metadata.resource_version != revision:
                return f"{key} has been at {revision}, and the store at {held} has not shown it"
        return ""

    def replace(self, replaced: Replaced[T]) -> list[Notification[T]]:
        """Replace all contents; return deletions first, then the rest in list order.

        Unchanged objects are neither replaced nor returned. Equal revisions prove nothing if the
        definition has changed.
        """
        proves = not self.redefined
        self.redefined = False
        initial = not self._store.resource_version
        before = {key_of(obj): obj for obj in self._store.list()}
        self.quarantined.clear()
        listed = ((key_of(obj), obj) for obj in replaced.objects)
        after = {
            key: obj if _changed(before.get(key), obj, proves) else before[key]
            for key, obj in listed
        }
        for odd in replaced.undecodable:
            self.quarantined[odd.key] = odd
            last = before.get(odd.key)
            if last is not None and last.metadata.uid == odd.uid:
                after[odd.key] = last
        after = self._fill_store(after, before, replaced.revision)
        gone = [
            Deleted(old)
            for key, old in before.items()
            if key not in after or not _same_object(old, after[key])
        ]
        return gone + [
            _change(before.get(key), obj, initial=initial)
            for key, obj in after.items()
            if before.get(key) is not obj
        ]

    def _fill_store(self, after: dict[str, T], before: dict[str, T], revision: str) -> dict[str, T]:
        """Replace the store; if an index function fails, keep the last valid object."""
        try:
            self._store.replace(after.values(), revision)
        except IndexFunctionError:
            after = self._without_unindexable(after, before)
            self._store.replace(after.values(), revision)
        return after

    def _without_unindexable(self, after: dict[str, T], before: dict[str, T]) -> dict[str, T]:
        good: dict[str, T] = {}
        for key, obj in after.items():
            try:
                self._store.check_indexes(obj)
            except IndexFunctionError as error:
                self.quarantined[key] = _unindexable(obj, error)
                if (last := before.get(key)) is not None and _same_object(last, obj):
                    good[key] = last
            else:
                good[key] = obj
        return good

    def _upsert(self, obj: T) -> list[Notification[T]]:
        try:
            old = self._store.put(obj)
        except IndexFunctionError as error:
            return self._quarantine(_unindexable(obj, error))
        if self.quarantined:
            self.quarantined.pop(key_of(obj), None)
        if old is None:
            return [Added(obj)]
        return [Updated(old, obj)] if _same_object(old, obj) else [Deleted(old), Added(obj)]

    def _remove(self, obj: T) -> list[Notification[T]]:
        """Notify even of unknown keys; of two deletions if the store held another object."""
        key = key_of(obj)
        self.quarantined.pop(key, None)
        old = self._store.remove(key, obj.metadata.resource_version)
        seen: list[Notification[T]] = [Deleted(obj)]
        if old is not None and not _same_object(old, obj):
            return [Deleted(old), *seen]
        return seen

    def _quarantine(self, odd: Undecodable) -> list[Notification[T]]:
        """Keep the last valid object, unless the event shows its deletion."""
        last = self._store.get(odd.key)
        if odd.removed:
            self.quarantined.pop(odd.key, None)
        else:
            self.quarantined[odd.key] = odd
        if last is None or (last.metadata.uid == odd.uid and not odd.removed):
            self._store.advance(odd.revision)
            return []
        self._store.remove(odd.key, odd.revision)
        return [Deleted(last)]


def _unindexable(obj: ApiObject, error: IndexFunctionError) -> Undecodable:
    meta = obj.metadata
    return Undecodable(key_of(obj), meta.uid, meta.resource_version, str(error), metadata=meta)


def _same_object(a: T, b: T) -> bool:
    return a.metadata.uid == b.metadata.uid


def _changed(before: T | None, after: T, proves: bool) -> bool:
    """Return whether a listed object differs, if equal revisions prove that it does not."""
    return (
        before is None
        or not proves
        or not _same_object(before, after)
        or before.metadata.resource_version != after.metadata.resource_version
    )


def _change(old: T | None, new: T, *, initial: bool) -> Notification[T]:
    """Return the notification; another uid under a key is an addition after a deletion (INF-37)."""
    if old is None or not _same_object(old, new):
        return Added(new, initial)
    return Updated(old, new)


# Handlers of changes, called synchronously in the server's order.

_log = logging.getLogger(__name__)


Handler: TypeAlias = "Callable[[Notification[T]], None]"
"""Receives changes, in the server's order and never concurrently. Handlers map an object to keys
and enqueue those; they do no work of their own."""


class Handlers(Generic[T]):
    """The handlers of one informer; an exception in one is logged and counted, no more."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self._handlers: list[tuple[str, Handler[T]]] = []

    def add(self, handler: Handler[T], name: str, present: Iterable[T]) -> None:
        """Add a handler, which first receives what is present as an initial addition."""
        self.failures[name] += 0  # so that the metric exists before the first failure
        self._handlers.append((name, handler))
        self.notify([Added(obj, initial=True) for obj in present], self._handlers[-1:])

    def notify(
        self,
        notifications: Iterable[Notification[T]],
        handlers: Sequence[tuple[str, Handler[T]]] | None = None,
    ) -> None:
        """Call these handlers, all by default, with each notification."""
        for notification in notifications:
            for name, handler in self._handlers if handlers is None else handlers:
                try:
                    handler(notification)
                except Exception:  # noqa: BLE001  a handler may raise anything; others must not suffer
                    self.failures[name] += 1
                    _log.exception("handler %s failed", name)
