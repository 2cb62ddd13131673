"""How keys wait: by time, by priority, and after failures."""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush, nsmallest
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct


class TimerHandle(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call. Cancelling twice or too late has no effect."""
        ...


class Clock(Protocol):
    """Monotonic time and timers, as an asyncio loop has them."""

    def time(self) -> float:
        """Return the seconds since a fixed moment."""
        ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> TimerHandle:
        """Call `callback` once, when `time()` has reached `when`."""
        ...


# A heap of keys whose ranks may change.
#
# `heapq` cannot find an entry in order to move or remove it. `KeyHeap` does not search either: it
# leaves the outdated entry in the heap and records which entry is valid.

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


# Delays keys until a given time, with a single timer.
#
# A timer for every key would fill the heap of the event loop; only the earliest key needs one.

LONGEST_DELAY = 180 * 24 * 3600.0
"""Seconds. Half a year is as good as "never" and cannot overflow a timer."""

_LONGEST_TIMER = 3600.0
"""Seconds. Event loops reject timers of many days; waking up early is harmless."""


class DelayQueue(Generic[K]):
    """Delays and deduplicates keys.

    Each key is passed to `release`, with its due time, when that time has come.
    """

    def __init__(self, clock: Clock, release: Callable[[K, float], None]) -> None:
        self._clock = clock
        self._release = release
        self._waiting: KeyHeap[K] = KeyHeap()
        self._timer: TimerHandle | None = None
        self._timer_at = math.inf

    def __len__(self) -> int:
        """Return the number of delayed keys."""
        return len(self._waiting)

    def __contains__(self, key: K) -> bool:
        """Return whether `key` is delayed."""
        return key in self._waiting

    def due(self, key: K) -> float:
        """Return the time at which `key` will be released.

        Raises:
            KeyError: the key is not delayed.
        """
        return self._waiting.rank(key)

    def set(self, key: K, when: float) -> None:
        """Release `key` at `when`, which replaces an earlier time."""
        self._waiting.push(key, when)
        self._rearm()

    def discard(self, key: K) -> None:
        """Remove `key` if it is delayed."""
        if key in self._waiting:
            self._waiting.discard(key)
            self._rearm()

    def clear(self) -> None:
        """Remove all keys and the timer."""
        self._waiting.clear()
        self._rearm()

    def _rearm(self) -> None:
        """Ensure that a timer fires no later than the first key is due.

        A timer that is too early may stay: it finds no due key and calls this method again. So
        postponing or removing a key does not create a timer each time.
        """
        if not self._waiting:
            self._disarm()
            return
        head = self._waiting.lowest()
        if self._timer is None or self._timer_at > head:
            self._disarm()
            self._timer_at = min(head, self._clock.time() + _LONGEST_TIMER)
            self._timer = self._clock.call_at(self._timer_at, self._fire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        # A loop may fire a timer up to one tick of its clock early. Compared with the clock alone,
        # the first key would not be due, and the timer would fire again at once: a busy loop.
        now = max(self._clock.time(), self._timer_at)
        while self._waiting and self._waiting.lowest() <= now:
            due = self._waiting.lowest()
            self._release(self._waiting.pop(), due)
        self._rearm()


# The order of ready keys, in two bands: begun work comes first.
#
# With one order for all, ten thousand new keys delay the key of work that began a second ago until
# each of them has been handed out: what needs five runs of the key waits five times for all others.
# So keys whose work has begun form a band of their own, which goes first. So that it cannot starve
# the rest, each fourth turn belongs to the rest while both have keys (WQ-35):
#
# - of the rest, the n-th key is handed out after 3 n keys of begun work, at most;
# - of begun work, the n-th key is handed out after (n + 2) / 3 keys of the rest, at most.
#
# Inside a band the lowest rank comes first.

TURNS_OF_BEGUN = 3
"""Keys of begun work that are handed out, at most, before one of the waiting rest."""


class Bands(Generic[K]):
    """Distinct keys in two heaps. Any change costs O(log n) amortised."""

    def __init__(self) -> None:
        self._begun: KeyHeap[K] = KeyHeap()
        self._rest: KeyHeap[K] = KeyHeap()
        self._band: dict[K, KeyHeap[K]] = {}  # that of each key
        self._turns = 0  # of begun work while the rest waited, since the rest had one

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._band)

    def __contains__(self, key: K) -> bool:
        """Return whether `key` is in a band."""
        return key in self._band

    def rank(self, key: K) -> float:
        """Return the rank of `key` in its band.

        Raises:
            KeyError: the key is in no band.
        """
        return self._band[key].rank(key)

    def push(self, key: K, rank: float, *, begun: bool) -> None:
        """Insert `key` into a band, or move it, behind the keys of the same rank."""
        band = self._begun if begun else self._rest
        before = self._band.get(key, band)
        if before is not band:
            before.discard(key)
        band.push(key, rank)
        self._band[key] = band

    def pop(self) -> K:
        """Remove the key whose turn it is and return it.

        Raises:
            IndexError: both bands are empty.
        """
        begun = len(self._begun)
        waits = begun < len(self._band)
        if begun and (not waits or self._turns < TURNS_OF_BEGUN):
            self._turns += waits
            key = self._begun.pop()
        else:
            self._turns = 0
            key = self._rest.pop()
        del self._band[key]
        return key

    def clear(self) -> None:
        """Remove all keys."""
        self._begun.clear()
        self._rest.clear()
        self._band.clear()


# Back-off of failing keys.
#
# Each key has its own back-off, and there is no overall limit: a token bucket delays healthy keys
# because of the failures of others, for hours if a failing key is added often (WQ-23).


class Backoff(Struct, frozen=True):
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


FLOOR = 1.0
"""Seconds for which a failed key is held back, even if events add it; less if its back-off is
shorter (WQ-24). Otherwise a controller that writes an error into the status of its object would be
triggered by its own write in a busy loop. No event is delayed by more than this."""


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

    def __init__(self, backoff: Backoff, rng: random.Random) -> None:
        self._backoff = backoff
        self._rng = rng
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
        self._failures[key] = _Failure(count + 1, since, now, now + min(delay, FLOOR))
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
