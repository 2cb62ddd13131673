"""One resource's caches, overlaid with this process's own writes, and reads through them.

Reading one key or one index value costs as much as what it finds, however much is expected.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import Resource
from controller.runtime.expectation import (
    Deleted,
    Expectation,
    ObjectReference,
    Outside,
    StoreState,
    Written,
    effective,
    is_ended,
    is_newer,
    revision_of,
    with_answer,
    with_deletion,
)
from controller.runtime.kind import InstalledSchema, ObjectUnreadable, Unreadable
from controller.runtime.record import Record
from informers import Lister, Undecodable, is_older

T = TypeVar("T", bound=KubeObject)


class NotCached(LookupError):  # noqa: N818
    """No kind watches the resource or namespace: a programming error, never "not found"."""


def metadata_of(odd: Undecodable) -> ObjectMeta:
    """Return the decodable part of the metadata of an object that does not fit its type."""
    if isinstance(odd.metadata, ObjectMeta):
        return odd.metadata
    namespace, _, name = odd.key.rpartition("/")
    return ObjectMeta(name=name, namespace=namespace, uid=odd.uid)


class Overlay(Generic[T]):
    """All expectations of one resource, reads through them, and what the store says of them.

    Only `Expectations` changes it. Reading one key is O(1); reading an index value is O(the
    objects found + the expectations under that value).

    Args:
        now: monotonic seconds.
        notify: enqueues the owners of an object.

    Attributes:
        expectations: all of them, by key.
        selective: whether a label selector filters the caches.
        watched: whether there is a cache of any namespace.
    """

    def __init__(
        self,
        resource: Resource[T],
        *,
        now: Callable[[], float],
        notify: Callable[[Expectation[Any]], None],
    ) -> None:
        self.resource = resource
        self.selective = False
        self.watched = False
        self.expectations: dict[str, Expectation[T]] = {}
        self._now = now
        self._notify = notify
        self._caches: dict[str, Lister[T]] = {}
        self._quarantined: list[Mapping[str, Undecodable]] = []
        self._functions: dict[str, Callable[[T], Sequence[str]]] = {}
        self._indexed: dict[tuple[str, str], dict[str, None]] = {}
        self._values: dict[str, tuple[tuple[str, str], ...]] = {}
        self._awaited: dict[str, list[tuple[int, str, str]]] = {}

    # -- caches -------------------------------------------------------------------------------

    def add_cache(
        self,
        namespace: str,
        cache: Lister[T],
        indexes: Mapping[str, Callable[[T], Sequence[str]]],
        *,
        selective: bool = False,
        quarantined: Mapping[str, Undecodable] = MappingProxyType({}),
    ) -> None:
        """Read from `cache`, which covers `namespace` (empty: all of them).

        `selective` says that a label selector filters it, so that an object may leave it without
        being deleted; `quarantined` is a live view of the objects that do not fit their type, by
        key.
        """
        self.selective = self.selective or selective
        self.watched = True
        self._caches[namespace] = cache
        self._functions.update(indexes)
        self._quarantined.append(quarantined)

    def remove_caches(self) -> None:
        """Forget the resource, which the server no longer has, with all its expectations."""
        self.watched = False
        self._caches.clear()
        self._quarantined.clear()
        for expectation in list(self.expectations.values()):
            self._forget(expectation)

    def cache_of(self, namespace: str) -> Lister[T]:
        """Return the cache that covers `namespace`.

        Raises:
            NotCached: there is none.
        """
        cache = self._caches.get("" if "" in self._caches else namespace)
        if cache is None:
            where = f" in namespace {namespace}" if self._caches and namespace else ""
            raise NotCached(f"{self.resource}{where} are not watched by any kind")
        return cache

    def _cache_of(self, namespace: str) -> Lister[T] | None:
        return self._caches.get("" if "" in self._caches else namespace)

    # -- reads --------------------------------------------------------------------------------

    def get(self, key: str) -> T | None:
        """Return the newest object known under `key`."""
        stored = self.cache_of(key.rpartition("/")[0]).get(key)
        expectation = self.expectations.get(key)
        return stored if expectation is None else effective(stored, expectation.entry)

    def peek(self, key: str) -> T | None:
        """Return the same, None also if it is not watched."""
        return self.get(key) if self._cache_of(key.rpartition("/")[0]) is not None else None

    def by_index(self, index: str, value: str) -> list[T]:
        """Return all newest objects whose index function gives `value`."""
        if not self.watched:
            raise NotCached(f"{self.resource} are not watched by any kind")
        stored = [o for cache in self._caches.values() for o in cache.by_index(index, value)]
        if not self.expectations:
            return stored
        function = self._functions[index]
        result: list[T] = []
        shown: set[str] = set()
        for obj in stored:
            key = obj.metadata.key
            expectation = self.expectations.get(key)
            newest = obj if expectation is None else effective(obj, expectation.entry)
            if newest is obj:
                result.append(obj)
            elif newest is not None and value in function(newest):
                result.append(newest)
            shown.add(key)
        for key in self._indexed.get((index, value), ()):
            newest = None if key in shown else self.get(key)
            if newest is not None and value in function(newest):
                result.append(newest)
        return result

    def unreadable(self, namespace: str) -> dict[str, Unreadable]:
        """Return existing objects that the cache cannot decode, by name."""
        found: dict[str, Unreadable] = {}
        for quarantined in self._quarantined:
            for key, odd in quarantined.items():
                where, _, name = key.rpartition("/")
                if where == namespace and self.cache_of(namespace).get(key) is None:
                    found[name] = Unreadable(metadata_of(odd), odd.reason)
        return found

    def stores(self, key: str) -> bool:
        """Return whether the cache shows an object under `key`, which may be known to be gone."""
        return self.cache_of(key.rpartition("/")[0]).get(key) is not None

    def why_unreadable(self, key: str) -> str:
        """Return why the cache cannot decode an object; empty if it can, or there is none."""
        odd = next((each[key] for each in self._quarantined if key in each), None)
        return odd.reason if odd is not None else ""

    def state_of(self, key: str) -> StoreState:
        """Return the state of an object in the store, empty if a newer one is expected."""
        cache = self._cache_of(key.rpartition("/")[0])
        if cache is None or any(key in odd for odd in self._quarantined):
            return StoreState()
        stored = cache.get(key)
        if stored is None:
            return StoreState(cache.resource_version)
        meta = stored.metadata
        return StoreState(cache.resource_version, meta.uid, meta.resource_version)

    # -- changes of expectations --------------------------------------------------------------

    def get_or_create(self, key: str, owner: Record | None) -> Expectation[T]:
        """Return the expectation for an object, new if there was none, with this owner added."""
        expectation = self.expectations.get(key) or Expectation(ObjectReference(self.resource, key))
        if owner is not None:
            owner.expectations[expectation.reference] = expectation
            expectation.owners[owner.owner.uid] = owner
        return expectation

    def set_object(self, expectation: Expectation[T], obj: T) -> None:
        """Show `obj` in place of the stored object until the store has caught up."""
        self._await(expectation, obj)
        stored = self._stored(expectation)
        if stored is None or is_newer(obj, stored):
            expectation.entry = with_answer(expectation.entry, obj)

    def apply_live_object(self, expectation: Expectation[T], obj: T | None, at: str) -> None:
        """Apply the result of a live read to the expectation; `at` is the time of day."""
        for owner in expectation.owners.values():
            owner.found(expectation.reference, obj)
        entry = expectation.entry
        if obj is None:
            shown = effective(self._stored(expectation), entry)
            if shown is not None:
                expectation.entry = with_deletion(entry, shown.metadata.uid, at, gone=True)
            self.update(expectation)
            return
        self._await(expectation, obj)
        if self._has_passed(expectation.reference, obj):
            expectation.entry = Outside(obj)
        elif isinstance(entry, Deleted) and obj.metadata.terminating:
            expectation.entry = with_answer(replace(entry, obj=None), obj)
        else:
            expectation.entry = Written(obj)
        self.update(expectation)

    def _await(self, expectation: Expectation[T], obj: T) -> None:
        """Observe the revision; check the expectation once the store has reached it."""
        reference, revision = expectation.reference, obj.metadata.resource_version
        for owner in expectation.owners.values():
            owner.observe_revision(self.resource, revision)
        scope = "" if "" in self._caches else reference.namespace
        entry = (len(revision), revision, reference.key)  # sorts like the number
        heapq.heappush(self._awaited.setdefault(scope, []), entry)

    def require_live_read(self, expectation: Expectation[T]) -> None:
        """Mark it as one that the store cannot satisfy."""
        if not expectation.needs_live_read:
            expectation.needs_live_read = True
            self._notify(expectation)

    # -- what the store shows -----------------------------------------------------------------

    def observe_change(self, key: str) -> None:
        """Check whether an object's new state in the store satisfies its expectation."""
        expectation = self.expectations.get(key)
        if expectation is not None:
            self.update(expectation)

    def observe_revision(self, scope: str, revision: str) -> None:
        """Check what was expected by `revision`, which the store has reached.

        No event reports the deletion of an object that the store has never shown.
        """
        awaited, reached = self._awaited.get(scope), (len(revision), revision)
        while awaited and awaited[0][:2] <= reached:
            expectation = self.expectations.get(heapq.heappop(awaited)[2])
            if expectation is None:
                continue
            entry, reference = expectation.entry, expectation.reference
            is_over = entry is not None and self._has_passed(reference, entry.obj)
            self.update(expectation)
            if is_over and expectation.satisfied:
                self._notify(expectation)

    def update(self, expectation: Expectation[T]) -> None:
        """Compare a changed expectation with the store, and drop it if it is satisfied."""
        stored = self._stored(expectation)
        shown = revision_of(stored)
        if stored is None and self._cache_of(expectation.reference.namespace) is None:
            expectation.entry = None
        else:
            self._compare(expectation, stored)
        if not isinstance(expectation.entry, Written | Deleted):  # it never shows what is outside
            expectation.unseen_since = None
        elif expectation.unseen_since is None or shown != expectation.shown:
            expectation.unseen_since = self._now()
        expectation.shown = shown
        if expectation.owners and not expectation.satisfied:
            self._put(expectation)
        else:
            self._forget(expectation)

    def _compare(self, expectation: Expectation[T], stored: T | None) -> None:
        """Drop what the store satisfies; require a live read where it cannot tell (EXP-22)."""
        has_changed = revision_of(stored) != expectation.shown
        for owner in expectation.owners.values():
            if expectation.reference in owner.writes:
                was_presumed = has_changed and owner.is_presumed_failed(expectation.reference)
                if owner.settle(expectation, stored) or was_presumed:
                    self._notify(expectation)
        entry = expectation.entry
        if entry is None:
            return
        passed = stored is None and self._has_passed(expectation.reference, entry.obj)
        if is_ended(entry, stored, passed=passed):
            expectation.entry = None
            expectation.needs_live_read &= stored is None
        elif passed and isinstance(entry, Written):
            self.require_live_read(expectation)

    def _has_passed(self, reference: ObjectReference, obj: T | None) -> bool:
        """Return whether the store is at or past the object's revision and shows none."""
        cache = self._cache_of(reference.namespace)
        if cache is None or obj is None or not cache.resource_version:
            return False
        is_behind = is_older(cache.resource_version, obj.metadata.resource_version)
        return not is_behind and cache.get(reference.key) is None

    def _stored(self, expectation: Expectation[T]) -> T | None:
        cache = self._cache_of(expectation.reference.namespace)
        return cache.get(expectation.reference.key) if cache is not None else None

    def _put(self, expectation: Expectation[T]) -> None:
        """Add an expectation or index it again after a change of its `obj`."""
        key = expectation.reference.key
        self.expectations[key] = expectation
        self._unindex(key)
        obj = expectation.entry.obj if expectation.entry is not None else None
        if obj is None:
            return
        values = tuple(
            (index, value)
            for index, function in self._functions.items()
            for value in dict.fromkeys(function(obj))  # the same one twice counts once
        )
        self._values[key] = values
        for pair in values:
            self._indexed.setdefault(pair, {})[key] = None

    def _forget(self, expectation: Expectation[T]) -> None:
        """Drop it, whether it is satisfied or not."""
        self.expectations.pop(expectation.reference.key, None)
        self._unindex(expectation.reference.key)
        for owner in expectation.owners.values():
            owner.drop(expectation.reference)

    def _unindex(self, key: str) -> None:
        for pair in self._values.pop(key, ()):
            keys = self._indexed[pair]
            del keys[key]
            if not keys:
                del self._indexed[pair]


class OverlayReader:
    """Implements `kind.CacheReader` over the overlays.

    Attributes:
        record: returns the record of the owner with a uid.
        installed_schemas: published schemas by resource.
        unverified: keys of edited objects whose schema was not read since, by resource.
        clock_jumped_at: the time of day after its last jump, None before the first.
        clock_steady_since: the same, or the time at which this process began to lead, if that was
            later; None before it leads.
    """

    def __init__(
        self, overlays: Mapping[Resource[Any], Overlay[Any]], record: Callable[[str], Record]
    ) -> None:
        self._overlays = overlays
        self.record = record
        self.installed_schemas: Mapping[Resource[Any], InstalledSchema] = {}
        self.unverified: Mapping[Resource[Any], Container[str]] = {}
        self.clock_jumped_at: datetime | None = None
        self.clock_steady_since: datetime | None = None

    def get(self, resource: Resource[T], key: str) -> T | None:
        """Return the newest object known under `key`.

        Raises:
            NotCached: no kind watches it.
            ObjectUnreadable: it exists, and the cache could never decode it.
        """
        overlay: Overlay[T] = self._overlays[resource]
        found = overlay.get(key)
        if found is None and (reason := overlay.why_unreadable(key)):
            raise ObjectUnreadable(resource.kind, key, reason)
        return found

    def by_index(self, resource: Resource[T], index: str, value: str) -> list[T]:
        """Return all newest objects whose index function gives `value`, in no particular order.

        Raises:
            NotCached: no kind watches it.
            KeyError: there is no such index.
        """
        return self._overlays[resource].by_index(index, value)

    def serves(self, resource: Resource[Any]) -> bool:
        return self._overlays[resource].watched

    def unreadable(self, resource: Resource[Any], namespace: str) -> dict[str, Unreadable]:
        return self._overlays[resource].unreadable(namespace)

    def revision(self, resource: Resource[Any], owner_uid: str) -> str:
        record = self.record(owner_uid)
        cache = self._overlays[resource].cache_of(record.owner.namespace)
        return record.observe_revision(resource, cache.resource_version)

    def installed_schema(self, resource: Resource[Any]) -> InstalledSchema:
        return self.installed_schemas.get(resource, InstalledSchema())

    def is_verified(self, resource: Resource[Any], key: str) -> bool:
        return key not in self.unverified.get(resource, ())
