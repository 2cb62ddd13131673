"""The store of one informer: objects, indexes and a revision (INF-58).

Reconcilers use the `Lister`; only the informer holds the `Store`. Every method is synchronous and
therefore atomic with respect to the event loop: no locks are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol

from informers.errors import IndexFunctionError
from informers.objects import IndexFunction, T, is_older, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
    """

    def __init__(self, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._objects: dict[str, T] = {}
        self._revision = ""
        self._indexes: dict[str, _Index[T]] = {}
        for name, function in (indexes or {}).items():
            self.add_index(name, function)

    @property
    def resource_version(self) -> str:
        """Revision of the contents; empty before the first list."""
        return self._revision

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
        return [self._objects[key] for key in self._indexes[index].keys(value)]

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index and fill it from the current objects.

        Raises:
            IndexFunctionError: the name is taken, or the function raised on an object.
        """
        if name in self._indexes:
            raise IndexFunctionError(f"there is already an index {name!r}")
        index = _Index(name, function)
        index.fill(self._objects)
        self._indexes[name] = index

    def put(self, obj: T) -> T | None:
        """Insert or replace one object; the revision becomes the object's.

        Returns:
            The previous object with the same key.

        Raises:
            IndexFunctionError: an index function raised; the store is unchanged.
        """
        key = key_of(obj)
        values = [(index, index.values(key, obj)) for index in self._indexes.values()]
        old = self._objects.get(key)
        for index, after in values:
            index.move(key, index.values(key, old) if old is not None else (), after)
        self._objects[key] = obj
        self.advance(obj.metadata.resource_version)
        return old

    def remove(self, key: str, revision: str) -> T | None:
        """Remove one object; the revision becomes that of its deletion.

        Returns:
            The removed object.
        """
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                index.move(key, index.values(key, old), ())
        self.advance(revision)
        return old

    def advance(self, revision: str) -> None:
        """Advance to a later revision with unchanged contents; ignore earlier ones."""
        if revision and not is_older(revision, self._revision):
            self._revision = revision

    def replace(self, objects: Iterable[T], revision: str) -> None:
        """Replace all contents and the revision, which may decrease.

        Raises:
            IndexFunctionError: an index function raised; the store is unchanged.
        """
        fresh = {key_of(obj): obj for obj in objects}
        indexes = {name: _Index(name, index.function) for name, index in self._indexes.items()}
        for index in indexes.values():
            index.fill(fresh)
        self._objects, self._indexes, self._revision = fresh, indexes, revision

    def check_indexes(self, obj: T) -> None:
        """Call all index functions on `obj`.

        Raises:
            IndexFunctionError: one of them raised.
        """
        for index in self._indexes.values():
            index.values(key_of(obj), obj)


class _Index(Generic[T]):
    """Keys by value, in order of insertion, so that runs are reproducible.

    Values without keys are dropped, otherwise the index would leak.
    """

    def __init__(self, name: str, function: IndexFunction[T]) -> None:
        self.name = name
        self.function = function
        self._keys: dict[str, dict[str, None]] = {}

    def keys(self, value: str) -> Mapping[str, None]:
        return self._keys.get(value, {})

    def values(self, key: str, obj: T) -> frozenset[str]:
        try:
            return frozenset(self.function(obj))
        except Exception as error:
            raise IndexFunctionError(f"index {self.name!r} on {key}: {error!r}") from error

    def fill(self, objects: Mapping[str, T]) -> None:
        for key, obj in objects.items():
            self.move(key, (), self.values(key, obj))

    def move(self, key: str, before: Iterable[str], after: Iterable[str]) -> None:
        before, after = frozenset(before), frozenset(after)
        for value in before - after:
            keys = self._keys[value]
            keys.pop(key, None)
            if not keys:
                del self._keys[value]
        for value in after - before:
            self._keys.setdefault(value, {})[key] = None
