"""One resource's caches, overlaid with this process's own writes.

Reading one key or one index value costs as much as what it finds, however much is expected.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from controller.kube.objects import KubeObject, ObjectMeta
from controller.runtime.expectations.expectation import StoreState, effective
from controller.runtime.kind import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controller.kube.resources import Resource
    from controller.runtime.expectations.expectation import Expectation, ObjectReference
    from informers import Lister, Undecodable

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
    """All expectations of one resource, and reads through them.

    Only `Expectations` changes it. Reading one key is O(1); reading an index value is O(the
    objects found + the expectations under that value).

    Attributes:
        expectations: all of them, by key.
        corrections: reads in which an expectation replaced stale data of the cache.
        selective: a label selector filters the caches, so that an object may leave them without
            being deleted.
    """

    def __init__(self, resource: Resource[T]) -> None:
        self.resource = resource
        self.corrections = 0
        self.selective = False
        self._caches: dict[str, Lister[T]] = {}
        self._quarantined: list[Mapping[str, Undecodable]] = []
        self._functions: dict[str, Callable[[T], Sequence[str]]] = {}
        self.expectations: dict[str, Expectation[T]] = {}
        self._indexed: dict[tuple[str, str], dict[str, None]] = {}
        self._values: dict[str, tuple[tuple[str, str], ...]] = {}

    def add_cache(
        self,
        namespace: str,
        cache: Lister[T],
        indexes: Mapping[str, Callable[[T], Sequence[str]]],
        quarantined: Mapping[str, Undecodable],
    ) -> None:
        """Read from `cache`, which covers `namespace` (empty: all of them).

        `quarantined` is a live view of the objects that do not fit their type, by key.
        """
        self._caches[namespace] = cache
        self._functions.update(indexes)
        self._quarantined.append(quarantined)

    def remove_caches(self) -> None:
        """Read from no cache any more."""
        self._caches.clear()
        self._quarantined.clear()

    def unreadable(self, namespace: str) -> dict[str, Unreadable]:
        """Return existing objects that the cache cannot decode, by name."""
        found: dict[str, Unreadable] = {}
        for quarantined in self._quarantined:
            for key, odd in quarantined.items():
                where, _, name = key.rpartition("/")
                if where == namespace and self.cache_of(namespace).get(key) is None:
                    found[name] = Unreadable(metadata_of(odd), odd.reason)
        return found

    def why_unreadable(self, key: str) -> str:
        """Return why the cache cannot decode an object; empty if it can, or there is none."""
        odd = next((each[key] for each in self._quarantined if key in each), None)
        return odd.reason if odd is not None else ""

    @property
    def watched(self) -> bool:
        """True if there is a cache of any namespace."""
        return bool(self._caches)

    def covers(self, namespace: str) -> bool:
        """Return whether a cache shows the objects of `namespace`."""
        return "" in self._caches or namespace in self._caches

    def scope_of(self, namespace: str) -> str:
        """Return the namespace by which the cache that covers `namespace` was added."""
        return "" if "" in self._caches else namespace

    def cache_of(self, namespace: str) -> Lister[T]:
        """Return the cache that covers `namespace`.

        Raises:
            NotCached: there is none.
        """
        cache = self._caches.get(self.scope_of(namespace))
        if cache is None:
            where = f" in namespace {namespace}" if self._caches and namespace else ""
            raise NotCached(f"{self.resource}{where} are not watched by any kind")
        return cache

    def get(self, key: str) -> T | None:
        """Return the newest object known under `key`."""
        stored = self.cache_of(key.rpartition("/")[0]).get(key)
        expectation = self.expectations.get(key)
        if expectation is None:
            return stored
        newest = effective(stored, expectation)
        if newest is not stored:
            self.corrections += 1
        return newest

    def by_index(self, index: str, value: str) -> list[T]:
        """Return all newest objects whose index function gives `value`."""
        if not self._caches:
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
            newest = obj if expectation is None else effective(obj, expectation)
            if newest is obj:
                result.append(obj)
            elif newest is not None and value in function(newest):
                result.append(newest)
            shown.add(key)
        for key in self._indexed.get((index, value), ()):
            newest = None if key in shown else self._newest(key)
            if newest is not None and value in function(newest):
                result.append(newest)
        if len(result) != len(stored) or any(map(operator.is_not, result, stored)):
            self.corrections += 1
        return result

    def stored(self, reference: ObjectReference) -> T | None:
        """Return the object in the store.

        Raises:
            NotCached: no cache covers it.
        """
        return self.cache_of(reference.namespace).get(reference.key)

    def state_of(self, key: str) -> StoreState:
        """Return the state of an object in the store, empty if a newer one is expected."""
        namespace = key.rpartition("/")[0]
        if not self.covers(namespace) or any(key in odd for odd in self._quarantined):
            return StoreState()
        cache = self.cache_of(namespace)
        stored = cache.get(key)
        if stored is None:
            return StoreState(cache.resource_version)
        meta = stored.metadata
        return StoreState(cache.resource_version, meta.uid, meta.resource_version)

    def put(self, expectation: Expectation[T]) -> None:
        """Add an expectation or index it again after a change of its `obj`."""
        key = expectation.reference.key
        self.expectations[key] = expectation
        self._unindex(key)
        if expectation.obj is None:
            return
        values = tuple(
            (index, value)
            for index, function in self._functions.items()
            for value in dict.fromkeys(function(expectation.obj))  # the same one twice counts once
        )
        self._values[key] = values
        for pair in values:
            self._indexed.setdefault(pair, {})[key] = None

    def drop(self, key: str) -> None:
        """Remove the expectation for `key`."""
        self.expectations.pop(key, None)
        self._unindex(key)

    def _newest(self, key: str) -> T | None:
        stored = self.cache_of(key.rpartition("/")[0]).get(key)
        return effective(stored, self.expectations[key])

    def _unindex(self, key: str) -> None:
        for pair in self._values.pop(key, ()):
            keys = self._indexed[pair]
            del keys[key]
            if not keys:
                del self._indexed[pair]


class OverlayIndex:
    """The overlays of all resources."""

    def __init__(self) -> None:
        self._by_resource: dict[Resource[Any], Overlay[Any]] = {}

    def get(self, resource: Resource[T]) -> Overlay[T]:
        """Return the overlay of one resource, created on first use."""
        overlay = self._by_resource.get(resource)
        if overlay is None:
            overlay = self._by_resource[resource] = Overlay(resource)
        return overlay

    def get_expectation(self, reference: ObjectReference) -> Expectation[Any] | None:
        """Return the expectation for an object, if there is one."""
        return self.get(reference.resource).expectations.get(reference.key)

    def all(self) -> list[Overlay[Any]]:
        """Return all overlays."""
        return list(self._by_resource.values())
