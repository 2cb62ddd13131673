"""Back-off of failing keys.

Each key has its own back-off, and there is no overall limit: a token bucket delays healthy keys
because of the failures of others, for hours if a failing key is added often (WQ-23).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    import random

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Backoff:
    """Delays that double with each failure: `min(base * 2**failures, cap)`.

    Attributes:
        base: seconds after the first failure.
        cap: seconds that the doubling never exceeds.
        jitter: every delay, including the cap, is multiplied by a random factor in
            [1, 1 + jitter), so that keys that failed together do not retry together.
    """

    base: float = 0.005
    cap: float = 300.0
    jitter: float = 0.2

    def delay(self, failures: int) -> float:
        """Return the seconds to wait, without jitter, after `failures` earlier failures."""
        # Sixty doublings of a nanosecond are thirty years; more would only overflow.
        return min(self.base * 2.0 ** min(failures, 60), self.cap)


class _Failure(NamedTuple):
    in_a_row: int
    since: float
    at: float
    held_until: float


class Failures(Generic[K]):
    """Counts consecutive failures by key, and holds failing keys back.

    A key that neither fails again nor is forgotten is dropped after twice the cap, so that
    abandoned keys take no memory. All operations cost O(1) amortised.
    """

    def __init__(self, backoff: Backoff, rng: random.Random, floor: float) -> None:
        self._backoff = backoff
        self._rng = rng
        self._floor = floor
        self._failures: OrderedDict[K, _Failure] = OrderedDict()  # by time of the last failure

    def __len__(self) -> int:
        """Return how many keys are failing."""
        return len(self._failures)

    def record(self, key: K, now: float, delay: float | None = None) -> float:
        """Count a failure of `key` and return its delay, `delay` if given, in seconds."""
        self._drop_older_than(now - 2 * self._backoff.cap)
        count = self.count(key)
        if delay is None:
            delay = self._backoff.delay(count) * (1 + self._backoff.jitter * self._rng.random())
        since = self.since(key) if count else now
        self._failures[key] = _Failure(count + 1, since, now, now + min(delay, self._floor))
        self._failures.move_to_end(key)
        return delay

    def count(self, key: K) -> int:
        """Return how often `key` has failed since it was last forgotten."""
        failure = self._failures.get(key)
        return failure.in_a_row if failure else 0

    def since(self, key: K) -> float:
        """Return the time of the first failure of `key` since it was last forgotten.

        Raises:
            KeyError: it has not failed.
        """
        return self._failures[key].since

    def oldest(self, limit: int) -> list[K]:
        """Return the keys that have failed for longest, at most `limit`. Costs O(n)."""
        return nsmallest(limit, self._failures, key=self.since)

    def held_until(self, key: K) -> float:
        """Return the time before which `key` must not run, even if it is added (WQ-24)."""
        failure = self._failures.get(key)
        return failure.held_until if failure else -math.inf

    def forget(self, key: K) -> None:
        """Reset the failures of `key`."""
        self._failures.pop(key, None)

    def _drop_older_than(self, horizon: float) -> None:
        while self._failures:
            key = next(iter(self._failures))
            if self._failures[key].at >= horizon:
                return
            del self._failures[key]
