"""A heap of keys whose ranks may change.

`heapq` cannot find an entry in order to move or remove it. `KeyHeap` does not search either: it
leaves the outdated entry in the heap and records which entry is valid.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_MIN_OUTDATED = 64  # fewer outdated entries are not worth a rebuild


class KeyHeap(Generic[K]):
    """Distinct keys, lowest rank first; among equal ranks the one pushed earliest.

    Reading the head costs O(1), any change O(log n) amortised. Two invariants ensure this:

    * the head of the heap is never outdated, because every change ends with pruning;
    * less than half of a large heap is outdated, because it is rebuilt before that. A rebuild
      costs as much as the changes that made it necessary.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._valid: dict[K, tuple[float, int, K]] = {}
        self._pushed = 0  # breaks ties, so that keys themselves are never compared

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._valid)

    def __contains__(self, key: K) -> bool:
        """Return whether `key` is in the heap."""
        return key in self._valid

    def rank(self, key: K) -> float:
        """Return the rank of `key`.

        Raises:
            KeyError: the key is not in the heap.
        """
        return self._valid[key][0]

    def lowest(self) -> float:
        """Return the rank of the head.

        Raises:
            IndexError: the heap is empty.
        """
        return self._heap[0][0]

    def push(self, key: K, rank: float) -> None:
        """Insert or move `key` behind the keys of the same rank."""
        self._pushed += 1
        entry = (rank, self._pushed, key)
        self._valid[key] = entry
        heappush(self._heap, entry)
        self._prune()

    def pop(self) -> K:
        """Remove the head and return it.

        Raises:
            IndexError: the heap is empty.
        """
        _, _, key = heappop(self._heap)
        del self._valid[key]
        self._prune()
        return key

    def discard(self, key: K) -> None:
        """Remove `key` if it is in the heap."""
        if self._valid.pop(key, None) is not None:
            self._prune()

    def clear(self) -> None:
        """Remove all keys."""
        self._heap.clear()
        self._valid.clear()

    def _prune(self) -> None:
        heap, valid = self._heap, self._valid
        while heap and valid.get(heap[0][2]) is not heap[0]:
            heappop(heap)
        if len(heap) > 2 * len(valid) + _MIN_OUTDATED:
            heap[:] = valid.values()
            heapify(heap)
