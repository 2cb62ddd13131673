"""What this process knows of objects that its caches do not show yet, and reads through it.

Of the stored and the expected object the newer one by resourceVersion counts. An object whose
deletion was accepted counts as terminating until the store shows that itself.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from controller.kube.objects import KubeObject, ObjectMeta
from controller.runtime.kind import Unreadable
from informers import is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controller.kube.resources import Resource
    from controller.runtime.plan import Failure, Write
    from informers import Lister, Undecodable

T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """Identifies an object by resource and `namespace/name`."""

    resource: Resource[Any]
    key: str

    @property
    def namespace(self) -> str:
        """Namespace of the object, empty if it is cluster-scoped."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.key.rpartition("/")[2]

    def __str__(self) -> str:
        """Return `pods default/a`, for sentences."""
        return f"{self.resource} {self.key}"


@dataclass(frozen=True, slots=True)
class StoreState:
    """The state of an object in the store when a request for it was sent.

    Attributes:
        revision: revision of the store.
        uid: uid of the stored object, empty if there was none.
        object_revision: revision of the stored object.
    """

    revision: str = ""
    uid: str = ""
    object_revision: str = ""

    def is_contradicted_by(self, obj: KubeObject, *, new: bool) -> bool:
        """Return whether a response can only come from a server that has gone back in time since.

        The store held the object as it was at its revision. Any other state of it is later, and so
        is an object that the request has created (`new`).
        """
        meta = obj.metadata
        changed = meta.uid == self.uid and meta.resource_version != self.object_revision
        return (new or changed) and is_older(meta.resource_version, self.revision)


@dataclass(slots=True, eq=False)
class Expectation(Generic[T]):
    """The knowledge of this process about one object that its cache does not show yet.

    Attributes:
        reference: the object.
        owners: uids of the owners that wrote to it.
        obj: newest object that a response or a live read returned and the store has not shown.
        deleted_uid: uid whose deletion was accepted, empty if none.
        deleted_at: when it was accepted, RFC 3339.
        gone: `deleted_uid` certainly does not exist any more.
        write: a write without a response: in flight, or of unknown outcome if `outcome_unknown`.
        writer: uid of the owner that made the last write.
        outcome_unknown: the response to `write` was lost.
        generation: generation of the writer for which `write` was planned.
        asked_at: clock time at which `write` was last sent, in seconds.
        unknown_since: clock time at which the write whose outcome is unknown was first sent, in
            seconds; it stays while the write is repeated. None if the outcome is known.
        unknown_failure: the last error of that write.
        tried_at: revision of the stored object when that write was sent; empty if there was none.
        presumed_failed: a live read has found that such a change was not carried out, and the store
            still shows the same revision. The owner may repeat it without another live read.
        live_only: `obj` was found by a live read although the store has passed it: it is not in
            the watched selection, and only live reads show its later states.
        name_conflict: a create met an object of this name that belongs to another owner.
        absent: a lookup found nothing.
        warning: a sentence for a condition, empty if there is none.
        blocking: the warning forbids creates and deletes in the scope of the write.
        scope: scope of the last write.
        needs_live_read: only a live read can resolve it.
        version: number of changes; shows whether one happened during a live read.
        sent_at: what the store showed when the latest request was sent.
        pending_since: clock time from which on the store has had a write to show, seconds.
        shown: revision of the object in the store, empty if it shows none.
        unseen_since: clock time from which on the store has had to show what the server answered,
            and has shown nothing new of the object, seconds; None if it has nothing to show.
        changed_at: clock time of the last change, seconds.
        live_reads: live reads since then.
    """

    reference: ObjectReference
    owners: dict[str, None] = field(default_factory=dict[str, None])
    obj: T | None = None
    deleted_uid: str = ""
    deleted_at: str = ""
    gone: bool = False
    write: Write | None = None
    writer: str = ""
    outcome_unknown: bool = False
    generation: int = 0
    asked_at: float = math.inf
    unknown_since: float | None = None
    unknown_failure: Failure | None = None
    tried_at: str = ""
    presumed_failed: bool = False
    live_only: bool = False
    name_conflict: bool = False
    absent: bool = False
    warning: str = ""
    blocking: bool = False
    scope: str = ""
    needs_live_read: bool = False
    version: int = 0
    sent_at: StoreState = StoreState()
    pending_since: float = 0.0
    shown: str = ""
    unseen_since: float | None = None
    changed_at: float = 0.0
    live_reads: int = 0

    def end_write(self) -> None:
        """Forget the write, because its outcome is known."""
        self.write, self.outcome_unknown, self.presumed_failed = None, False, False
        self.asked_at, self.unknown_since, self.unknown_failure = math.inf, None, None

    @property
    def pending(self) -> bool:
        """True if the store has yet to show a write. It never shows an object that left it."""
        return self.write is not None or self.unseen

    @property
    def unseen(self) -> bool:
        """True if the store has yet to show what the server answered to a write."""
        answered = self.obj is not None or bool(self.deleted_uid)
        return answered and not self.live_only

    @property
    def satisfied(self) -> bool:
        """True if nothing is expected that the store does not show."""
        return (
            self.obj is None
            and not self.deleted_uid
            and self.write is None
            and not (self.name_conflict or self.absent or self.warning)
        )


def is_newer(a: KubeObject, b: KubeObject) -> bool:
    """Return whether `a` has a later resourceVersion than `b`."""
    return is_older(b.metadata.resource_version, a.metadata.resource_version)


def effective(stored: T | None, expectation: Expectation[T]) -> T | None:
    """Return the object to show, given the stored object and the expectation."""
    newest = stored
    if expectation.obj is not None and (stored is None or is_newer(expectation.obj, stored)):
        newest = expectation.obj
    if newest is None or newest.metadata.uid != expectation.deleted_uid:
        return newest
    if expectation.gone:
        return None
    if newest.metadata.terminating:
        return newest
    metadata = msgspec.structs.replace(newest.metadata, deletion_timestamp=expectation.deleted_at)
    return msgspec.structs.replace(newest, metadata=metadata)


# One resource's caches, overlaid with this process's own writes.
#
# Reading one key or one index value costs as much as what it finds, however much is expected.


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
