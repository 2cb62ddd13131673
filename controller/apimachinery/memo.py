"""Results remembered for as long as the immutable object they were computed from lives.

Cached objects are never changed in place, so their identity is the cheapest possible key: no
hashing, no comparing, and nothing to invalidate.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K")
V = TypeVar("V")


class IdentityMemo(Generic[K, V]):
    """Computes `compute(obj)` once per object; forgets it together with the object."""

    def __init__(self, compute: Callable[[K], V]) -> None:
        self._compute = compute
        self._entries: dict[int, tuple[weakref.ref[K], V]] = {}

    def __call__(self, obj: K) -> V:
        """The remembered result for this very object, computed now if it is new.

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
        """The number of objects that are remembered."""
        return len(self._entries)

    def _forget(self, key: int, dead: weakref.ref[K]) -> None:
        entry = self._entries.get(key)
        if entry is not None and entry[0] is dead:
            del self._entries[key]
