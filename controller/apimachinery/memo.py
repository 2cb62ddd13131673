"""Results of computations on cached objects, remembered for as long as they hold.

Cached objects are never changed in place, so their identity is the cheapest possible key: no
hashing, no comparing, and nothing to invalidate.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from controller.apimachinery.custom_object import CustomObject

if TYPE_CHECKING:
    from collections.abc import Callable

Custom = TypeVar("Custom", bound=CustomObject)
K = TypeVar("K")
V = TypeVar("V")


class IdentityMemo(Generic[K, V]):
    """Computes `compute(obj)` once per object; forgets it together with the object."""

    def __init__(self, compute: Callable[[K], V]) -> None:
        self._compute = compute
        self._entries: dict[int, tuple[weakref.ref[K], V]] = {}

    def __call__(self, obj: K) -> V:
        """Return the remembered result for this very object; compute it for a new one.

        Exceptions are not remembered.
        """
        key = id(obj)
        entry = self._entries.get(key)
        if entry is not None and entry[0]() is obj:
            return entry[1]
        value = self._compute(obj)
        self._entries[key] = (weakref.ref(obj, lambda dead: self._forget(key, dead)), value)
        return value

    def __len__(self) -> int:
        """Return the number of remembered objects."""
        return len(self._entries)

    def _forget(self, key: int, dead: weakref.ref[K]) -> None:
        entry = self._entries.get(key)
        if entry is not None and entry[0] is dead:
            del self._entries[key]


@dataclass(slots=True)
class _Entry(Generic[Custom, V]):
    obj: Custom
    specification: Custom
    value: V


class SpecificationMemo(Generic[Custom, V]):
    """Computes `compute(obj)` once per specification: a new status needs no computation.

    All metadata but the revision belong to the specification. `compute` gets an object without
    status and revision, because they may change. The last result of each object is kept until
    `present` is told that it is gone.
    """

    def __init__(self, compute: Callable[[Custom], V]) -> None:
        self._compute = compute
        self._entries: dict[str, _Entry[Custom, V]] = {}

    def __call__(self, obj: Custom) -> V:
        """Return the remembered result for this specification; compute it for a new one.

        Exceptions are not remembered.
        """
        key = obj.metadata.key
        entry = self._entries.get(key)
        if entry is not None and entry.obj is obj:
            return entry.value
        specification = _specification(obj)
        if entry is not None and entry.specification == specification:
            entry.obj = obj
            return entry.value
        value = self._compute(specification)
        self._entries[key] = _Entry(obj, specification, value)
        return value

    def __len__(self) -> int:
        """Return the number of remembered objects."""
        return len(self._entries)

    def present(self, key: str, obj: Custom | None) -> Custom | None:
        """Return the object; drop the result of one that no longer exists.

        Args:
            key: namespace and name of the object.
            obj: the object, None if it no longer exists.
        """
        if obj is None:
            self._entries.pop(key, None)
        return obj


def _specification(obj: Custom) -> Custom:
    """Return the object without what may change while its specification stays the same."""
    metadata = msgspec.structs.replace(obj.metadata, resource_version="")
    return msgspec.structs.replace(obj, metadata=metadata, status={})
