"""The store of one informer: objects, indexes and a revision (INF-58).

Of objects only `ApiObject` is read: all other fields belong to the Struct type that the caller
passes to the codec.

Reconcilers use the `Lister`; only the informer holds the `Store`. Every method is synchronous and
therefore atomic with respect to the event loop: no locks are needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from informers.errors import IndexFunctionError

# Compares resource versions (INF-58).
#
# The order is meaningful only within one resource of one cluster. Versions are compared as text, by
# length and then by character, so that no number is too large.


_COMPARABLE = re.compile("[1-9][0-9]*").fullmatch


def is_comparable(revision: str) -> bool:
    """Return whether `revision` is a positive decimal number without leading zeros."""
    return _COMPARABLE(revision) is not None


def is_older(a: str, b: str) -> bool:
    """Return whether `a` is certainly older than `b`; False if they are not comparable."""
    return bool(_COMPARABLE(a) and _COMPARABLE(b)) and (len(a), a) < (len(b), b)


def is_newer(a: str, b: str) -> bool:
    """Return whether `a` may be newer than `b`; True if they are not comparable."""
    return not (_COMPARABLE(a) and _COMPARABLE(b)) or (len(a), a) > (len(b), b)


def is_odd(a: str, b: str) -> bool:
    """Return whether `a` cannot be compared, though `b` can be with others."""
    return is_comparable(b) and not is_comparable(a)


class Metadata(Protocol):
    """The part of `metadata` that informers read."""

    @property
    def name(self) -> str:
        """Name, unique within namespace and resource."""
        ...

    @property
    def namespace(self) -> str:
        """Namespace, empty for cluster-scoped objects."""
        ...

    @property
    def uid(self) -> str:
        """Uid, which distinguishes successive objects of one name."""
        ...

    @property
    def resource_version(self) -> str:
        """Revision of the last change."""
        ...


class ApiObject(Protocol):
    """An object of the API, immutable."""

    @property
    def metadata(self) -> Metadata:
        """Name, namespace, uid and revision at least."""
        ...


T = TypeVar("T", bound=ApiObject)
T_co = TypeVar("T_co", bound=ApiObject, covariant=True)

IndexFunction: TypeAlias = Callable[[T], Sequence[str]]


def object_key(namespace: str, name: str) -> str:
    """Return `namespace/name`, or `name` for cluster-scoped objects."""
    return f"{namespace}/{name}" if namespace else name


def key_of(obj: ApiObject) -> str:
    """Return the key of an object."""
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


# Results of the codec: pages of a list and events of a watch, as values.


class Upserted(Struct, Generic[T], frozen=True):
    """ADDED or MODIFIED, which mean the same for a store."""

    object: T


class Removed(Struct, Generic[T], frozen=True):
    """DELETED, with the final state of the object."""

    object: T


class Bookmark(Struct, frozen=True):
    """BOOKMARK: the server has sent everything up to `revision`."""

    revision: str
    ends_initial_events: bool = False


class Undecodable(Struct, frozen=True):
    """An object that cannot be decoded.

    Attributes:
        key: key of the object, empty if it could not be decoded either.
        removed: whether the event was DELETED.
        metadata: its metadata, or the names in it if the rest does not fit; None without a name.
    """

    key: str
    uid: str
    revision: str
    reason: str
    removed: bool = False
    metadata: Metadata | None = None


class Ignored(Struct, frozen=True):
    """An unknown event type or an event without metadata: skipped and counted."""

    reason: str


WatchEvent: TypeAlias = Upserted[T] | Removed[T] | Bookmark | Undecodable | Ignored


class Page(Struct, Generic[T], frozen=True):
    """One page of a list.

    Attributes:
        undecodable: objects that do not fit their type.
        continue_: token for the next page, empty on the last.
    """

    objects: list[T]
    undecodable: tuple[Undecodable, ...]
    revision: str
    continue_: str


class Replaced(Struct, Generic[T], frozen=True):
    """A complete list at one revision, paged or streamed.

    Attributes:
        undecodable: objects that exist but do not fit their type.
        fills_gaps: whether the store is known to lack events that came out of order.
    """

    objects: list[T]
    undecodable: tuple[Undecodable, ...]
    revision: str
    fills_gaps: bool = False


def revision_of(event: WatchEvent[T]) -> str:
    """Return the revision that the store reaches with `event`, empty if the event has none."""
    match event:
        case Upserted(obj) | Removed(obj):
            return obj.metadata.resource_version
        case Bookmark() | Undecodable():
            return event.revision
        case Ignored():
            return ""


# The store and its read side.


class Lister(Protocol[T]):
    """The read side. Objects are shared and immutable; lists are unordered snapshots."""

    @property
    def resource_version(self) -> str:
        """Revision of the contents; empty before the first list."""
        ...

    def get(self, key: str) -> T | None:
        """Return the object with key `namespace/name` or `name`, None if there is none."""
        ...

    def list(self) -> list[T]:
        """Return all objects."""
        ...

    def by_index(self, index: str, value: str) -> list[T]:
        """Return the objects for which index function `index` returns `value`."""
        ...


class Store(Generic[T]):
    """A writable `Lister`.

    Its `resource_version` is also the high-water mark: only `replace` may decrease it, and the
    reflector rejects older lists.

    Args:
        indexes: index functions by name. They must be pure.

    Attributes:
        resource_version: revision of the contents; empty before the first list.
    """

    def __init__(self, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._objects: dict[str, T] = {}
        self.resource_version = ""
        self._indexes: dict[str, _Index[T]] = {}
        for name, function in (indexes or {}).items():
            self.add_index(name, function)

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._objects)

    def get(self, key: str) -> T | None:
        """Return the object with key `namespace/name` or `name`, None if there is none."""
        return self._objects.get(key)

    def list(self) -> list[T]:
        """Return all objects, in no particular order."""
        return list(self._objects.values())

    def by_index(self, index: str, value: str) -> list[T]:
        """Return the objects for which index function `index` returns `value`.

        Raises:
            KeyError: there is no such index.
        """
        return [self._objects[key] for key in self._indexes[index].found.get(value, ())]

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index and fill it from the current objects.

        Raises:
            IndexFunctionError: the name is taken, or the function raised on an object.
        """
        if name in self._indexes:
            raise IndexFunctionError(f"there is already an index {name!r}")
        self._indexes[name] = _Index(name, function, self._objects)

    def put(self, obj: T) -> T | None:
        """Insert or replace one object; the revision becomes the object's.

        Returns:
            The previous object with the same key.

        Raises:
            IndexFunctionError: an index function raised; the store is unchanged.
        """
        key = key_of(obj)
        values = [index.values(key, obj) for index in self._indexes.values()]
        for index, after in zip(self._indexes.values(), values, strict=True):
            if after != index.held.get(key, ()):
                index.move(key, after)
        old = self._objects.get(key)
        self._objects[key] = obj
        self.advance(obj.metadata.resource_version)
        return old

    def remove(self, key: str, revision: str) -> T | None:
        """Remove one object; the revision becomes that of its deletion.

        Returns:
            The removed object.
        """
        old = self._objects.pop(key, None)
        for index in self._indexes.values():
            index.move(key, ())
        self.advance(revision)
        return old

    def advance(self, revision: str) -> None:
        """Advance to a later revision with unchanged contents; ignore earlier ones."""
        if revision and not is_older(revision, self.resource_version):
            self.resource_version = revision

    def replace(self, objects: Iterable[T], revision: str) -> None:
        """Replace all contents and the revision, which may decrease.

        Raises:
            IndexFunctionError: an index function raised; the store is unchanged.
        """
        fresh = {key_of(obj): obj for obj in objects}
        self._indexes = {
            name: _Index(name, index.function, fresh) for name, index in self._indexes.items()
        }
        self._objects, self.resource_version = fresh, revision

    def check_indexes(self, obj: T) -> None:
        """Call all index functions on `obj`.

        Raises:
            IndexFunctionError: one of them raised.
        """
        for index in self._indexes.values():
            index.values(key_of(obj), obj)


class _Index(Generic[T]):
    """Keys by value, in order of insertion, so that runs are reproducible.

    Values without keys are dropped, otherwise the index would leak. `held` has the values of each
    key that has any, so that the function need not be called on the old object too.
    """

    def __init__(self, name: str, function: IndexFunction[T], objects: Mapping[str, T]) -> None:
        self.name = name
        self.function = function
        self.held: dict[str, tuple[str, ...]] = {}
        self.found: dict[str, dict[str, None]] = {}
        for key, obj in objects.items():
            self.move(key, self.values(key, obj))

    def values(self, key: str, obj: T) -> tuple[str, ...]:
        try:
            return tuple(self.function(obj))
        except Exception as error:
            raise IndexFunctionError(f"index {self.name!r} on {key}: {error!r}") from error

    def move(self, key: str, after: tuple[str, ...]) -> None:
        """Find `key` under these values, and no others."""
        before = self.held.pop(key, ())
        for value in {*before}.difference(after):
            keys = self.found[value]
            del keys[key]
            if not keys:
                del self.found[value]
        for value in {*after}.difference(before):
            self.found.setdefault(value, {})[key] = None
        if after:
            self.held[key] = after
