"""The order of ready keys, in two bands: begun work comes first.

With one order for all, ten thousand new keys delay the key of work that began a second ago until
each of them has been handed out: what needs five runs of the key waits five times for all others.
So keys whose work has begun form a band of their own, which goes first. So that it cannot starve
the rest, each fourth turn belongs to the rest while both have keys (WQ-35):

* of the rest, the n-th key is handed out after 3 n keys of begun work, at most;
* of begun work, the n-th key is handed out after (n + 2) / 3 keys of the rest, at most.

Inside a band the lowest rank comes first.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from workqueue.heap import KeyHeap

K = TypeVar("K", bound=Hashable)

TURNS_OF_BEGUN = 3
"""Keys of begun work that are handed out, at most, before one of the waiting rest."""


class Bands(Generic[K]):
    """Distinct keys in two heaps. Any change costs O(log n) amortised."""

    def __init__(self) -> None:
        self._begun: KeyHeap[K] = KeyHeap()
        self._rest: KeyHeap[K] = KeyHeap()
        self._turns = 0  # of begun work while the rest waited, since the rest had one

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._begun) + len(self._rest)

    def __contains__(self, key: K) -> bool:
        """Return whether `key` is in a band."""
        return key in self._begun or key in self._rest

    def rank(self, key: K) -> float:
        """Return the rank of `key` in its band.

        Raises:
            KeyError: the key is in no band.
        """
        return (self._begun if key in self._begun else self._rest).rank(key)

    def push(self, key: K, rank: float, *, begun: bool) -> None:
        """Insert `key` into a band, or move it, behind the keys of the same rank."""
        band, other = (self._begun, self._rest) if begun else (self._rest, self._begun)
        other.discard(key)
        band.push(key, rank)

    def pop(self) -> K:
        """Remove the key whose turn it is and return it.

        Raises:
            IndexError: both bands are empty.
        """
        if self._begun and (not self._rest or self._turns < TURNS_OF_BEGUN):
            self._turns += bool(self._rest)
            return self._begun.pop()
        self._turns = 0
        return self._rest.pop()

    def clear(self) -> None:
        """Remove all keys."""
        self._begun.clear()
        self._rest.clear()
