"""Finds the expectations that a store has to satisfy once it reaches a revision."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, TypeAlias

from informers import is_comparable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.resources import Resource

_Order: TypeAlias = tuple[int, str]
"""A revision as length and digits, which sort like the number. A number may have more digits than
Python converts."""


class AwaitedRevisions:
    """Keys by the revision that their store must reach. Every call is O(log n), amortised."""

    def __init__(self) -> None:
        self._heaps: dict[tuple[Resource[Any], str], list[tuple[_Order, str]]] = {}

    def add(self, resource: Resource[Any], scope: str, revision: str, key: str) -> None:
        """Return `key` when the store of this scope reaches `revision`, never if it is opaque."""
        order = _order(revision)
        if order is not None:
            heapq.heappush(self._heaps.setdefault((resource, scope), []), (order, key))

    def reached(self, resource: Resource[Any], scope: str, revision: str) -> Iterator[str]:
        """Remove and return the keys that waited for `revision` or an earlier one."""
        heap = self._heaps.get((resource, scope))
        order = _order(revision)
        if not heap or order is None:
            return
        while heap and heap[0][0] <= order:
            yield heapq.heappop(heap)[1]


def _order(revision: str) -> _Order | None:
    """Return the sort key of the revision, None if it is opaque: then only live reads resolve."""
    return (len(revision), revision) if is_comparable(revision) else None
