"""A work queue: which key must be reconciled next.

A controller does not queue events but the *names* of changed objects; a worker then looks at the
current state. So a hundred events about one object are one run. Two things must not happen: two
workers have the same key, or a change is missed. Two sets and one order prevent both.

    dirty       keys that need a run
    processing  keys that a worker has
    order       dirty keys that are not processing, in the order in which they will be handed out

`add` makes a key dirty, and puts it in the order unless it is processing. `get` moves the head of
the order from dirty to processing. `done` removes a key from processing and, if it has become
dirty meanwhile, puts it in the order. There is no other transition, and each keeps the invariant

    order == dirty - processing

*Mutual exclusion*: `get` takes keys from the order only, and there no key is processing.
*No lost change*: a key handed out is no longer dirty. A change that the worker could miss,
because it came after the worker looked, came after `get`, so it made the key dirty again, and
`done` queues the key again.

This holds because no transition is split by an await. The only call that waits for keys is `get`,
and it takes its key after the last wait, in the step in which it returns. A wake-up carries no key
and wakes all getters, so that a getter that is cancelled takes neither a key nor a wake-up with it.

**Ageing.** With strict priorities a steady flow at 0 keeps a key at -100 waiting for ever. So the
priority of a key grows while it waits, by one point every `AGEING` seconds. The heap need not be
updated: all priorities grow at the same pace, so their order never changes. Of two keys, the
first is ahead at time t if

    priority_1 + (t - ready_1) / AGEING  >  priority_2 + (t - ready_2) / AGEING

where t cancels out. The rest is computed once, when the key becomes ready, and is the rank in an
ordinary heap, lowest first:

    rank = ready - priority * AGEING

**The bound** (WQ-33): a key of priority p that is ready since time r waits for no key of a higher
priority q that becomes ready after r + (q - p) * AGEING. With 3 s, LOW_PRIORITY
lets keys of priority 0 pass for five minutes, then none. Inside one priority it is first come,
first served.

**Begun work** (WQ-35): all this holds inside each of two bands. Keys whose work has begun, and
whose priority is not negative, come before the rest, which has each fourth turn (see `Bands`).
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from heapq import nsmallest
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from workqueue.waiting import LONGEST_DELAY, Backoff, Bands, Clock, DelayQueue, Failures

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100
"""For work that is not urgent: objects of an initial list, resyncs, relists (WQ-30)."""

AGEING = 3.0
"""Seconds of waiting that are worth one point of priority."""


# The metrics interface: events for a recorder, and a snapshot for gauges.
#
# Gauges are computed from a snapshot on demand: a depth that is counted anew each time cannot drift
# or become negative.


class QueueStatistics(Struct, frozen=True):
    """A snapshot of a queue. Durations are in seconds.

    Attributes:
        ready: keys that a worker could take now.
        dirty: keys that need a run, by priority: ready keys and keys that were added again while
            in flight. Priorities without keys are omitted.
        delayed: keys that wait for their time.
        processing: keys in flight.
        failing: keys with at least one failure since they were last forgotten.
        unfinished: sum of the ages of all runs in flight. It grows if a worker is stuck.
        longest_running: age of the oldest run in flight; 0 if there is none.
    """

    ready: int
    dirty: Mapping[int, int]
    delayed: int
    processing: int
    failing: int
    unfinished: float
    longest_running: float


class QueueRecorder:
    """Records the events of one queue. The base class ignores them."""

    def added(self) -> None:
        """Record that a key became dirty, which is an add that was not deduplicated."""

    def retried(self) -> None:
        """Record that a key was added with a delay."""

    def started(self, waited: float, /) -> None:
        """Record that a key was handed out `waited` seconds after it became dirty."""

    def finished(self, worked: float, /) -> None:
        """Record that a key is done `worked` seconds after it was handed out."""


class QueueMetrics(Protocol):
    """Creates the recorders of queues, which are distinguished by name."""

    def recorder(self, name: str, snapshot: Callable[[], QueueStatistics]) -> QueueRecorder:
        """Return the recorder of the queue `name`, whose gauges are read from `snapshot`."""
        ...


# A snapshot of single keys of a queue, for the debug page.


class RunningKey(Struct, Generic[K], frozen=True):
    """A key in flight, and the seconds since it was handed out."""

    key: K
    seconds: float


class FailingKey(Struct, Generic[K], frozen=True):
    """A key that has failed since it was last forgotten.

    Attributes:
        key: the key.
        failures: number of consecutive failures.
        seconds: seconds since the first of them.
        due: seconds until it is handed out, 0 if a worker could take it now; None if it is in
            flight, or not queued.
    """

    key: K
    failures: int
    seconds: float
    due: float | None


class QueueSnapshot(Struct, Generic[K], frozen=True):
    """The statistics of a queue and its oldest keys.

    Attributes:
        statistics: of all keys.
        running: keys in flight, the oldest run first.
        failing: failing keys, the one that has failed for longest first.
    """

    statistics: QueueStatistics
    running: tuple[RunningKey[K], ...]
    failing: tuple[FailingKey[K], ...]


# The queue.


class Closed(Exception):  # noqa: N818 - it ends a worker's loop, as StopIteration ends a for
    """The queue will not hand out any more keys."""


class _Run(NamedTuple):
    priority: int
    started: float
    waited: float


class WorkQueue(Generic[K]):
    """Hands out each added key to one worker at a time.

    The module's docstring explains the order. A key has one place: adding a waiting key again
    changes nothing, except that the higher priority and the earlier time win. In
    particular, a delayed key that is added runs once, now, and *its timer is gone* (WQ-17). A
    caller that needs a run at a certain time requests it at the end of every run.

    No call costs more than O(log n) for n keys, amortised; only `statistics`, `snapshot` and
    `close` take time proportional to n. Not thread-safe: all calls must come from one event
    loop.

    Args:
        name: the queue's name in metrics; without a name there are no metrics.
        backoff: delays after failures.
        begun: whether work on a key has begun. Read when the key becomes ready, and not to change
            before it is handed out.
    """

    def __init__(
        self,
        name: str = "",
        *,
        clock: Clock,
        rng: random.Random,
        metrics: QueueMetrics | None = None,
        backoff: Backoff = Backoff(),  # noqa: B008 - frozen
        begun: Callable[[K], bool] = lambda _key: False,
    ) -> None:
        self.name = name
        self._clock = clock
        self._begun = begun
        self._open = True  # otherwise adds are ignored
        self._dirty: dict[K, float] = {}  # since when
        self._processing: dict[K, _Run] = {}
        self._order: Bands[K] = Bands()
        self._delays: DelayQueue[K] = DelayQueue(clock, self._mark_dirty)
        self._priority: dict[K, int] = {}  # of dirty and of delayed keys; none is both
        self._failures: Failures[K] = Failures(backoff, rng)
        self._held: dict[K, float] = {}  # until when
        self._news = asyncio.Event()  # getters are to look again
        self._recorder = (
            metrics.recorder(name, self.statistics) if metrics and name else QueueRecorder()
        )

    def __len__(self) -> int:
        """Return the number of keys that a worker could take now."""
        return len(self._order)

    def add(self, key: K, *, priority: int | None = None) -> None:
        """Queue `key` to run as soon as possible.

        Without `priority` a waiting key keeps its priority, a key in flight keeps that of its
        run, and a new key gets 0. Ignored after `close`.
        """
        self._schedule(key, 0.0, priority)

    def add_after(
        self, key: K, delay: float, *, priority: int | None = None, retry: bool = True
    ) -> None:
        """Queue `key` to run in `delay` seconds, or as soon as possible if that is not above 0.

        Delays are limited to half a year. `retry` says whether the metric of retries counts it.

        Raises:
            ValueError: `delay` is not a number.
        """
        if math.isnan(delay):
            raise ValueError("a delay must be a number of seconds")
        if delay > 0 and self._open and retry:
            self._recorder.retried()
        self._schedule(key, min(delay, LONGEST_DELAY), priority)

    def add_rate_limited(self, key: K, *, delay: float | None = None) -> float:
        """Queue `key` to run after its back-off, because it failed; return the delay in seconds.

        `delay` replaces the back-off of callers that have a rule of their own.

        To be called while the key is in flight: runs requested during the failed run are then
        held back too.
        """
        delay = self._failures.record(key, self._clock.time(), delay)
        if key in self._processing:
            self._hold_back(key)
        self.add_after(key, delay)
        return delay

    def hold(self, key: K, seconds: float) -> None:
        """Do not hand out `key` again within `seconds`, even if it is added.

        To be called while the key is in flight; the last call counts. It does not queue the key:
        without an add the key does not run afterwards.
        """
        self._held[key] = self._clock.time() + seconds
        self._hold_back(key)

    def forget(self, key: K) -> None:
        """Reset the back-off of `key`. It stays queued."""
        self._failures.forget(key)

    def num_requeues(self, key: K) -> int:
        """Return how often `key` has failed since it was last forgotten."""
        return self._failures.count(key)

    async def get(self) -> K:
        """Wait for a key and take it. The caller must call `done`.

        A cancelled caller has taken no key, and no key is lost. Even if keys are ready,
        the event loop gets a turn, so that workers which never wait for anything else do not
        block other tasks.

        Raises:
            Closed: there is no key to hand out and there never will be.
        """
        await asyncio.sleep(0)
        while not self._order:
            if not self._open:
                raise Closed(self.name)
            self._news.clear()
            await self._news.wait()
        return self._hand_out()

    def done(self, key: K) -> None:
        """Mark `key` as processed, after which it may be handed out again.

        Raises:
            ValueError: it is not in flight.
        """
        run = self._processing.pop(key, None)
        if run is None:
            raise ValueError(f"{key!r} is not in flight")
        now = self._clock.time()
        self._recorder.finished(now - run.started)
        if key in self._dirty:
            self._enqueue(key, now)

    def priority_of(self, key: K) -> int:
        """Return the priority at which `key`, which is in flight, was handed out.

        Raises:
            KeyError: it is not in flight.
        """
        return self._processing[key].priority

    def waited(self, key: K) -> float:
        """Return the seconds that `key`, which is in flight, was ready before it was handed out.

        Raises:
            KeyError: it is not in flight.
        """
        return self._processing[key].waited

    def close(self) -> None:
        """Drop everything queued and release all getters. Runs go on.

        Dropping is right for level-triggered work: the next process finds it again.
        """
        self._open = False
        self._dirty.clear()
        self._order.clear()
        self._delays.clear()
        self._priority.clear()
        self._held.clear()
        self._news.set()

    def statistics(self) -> QueueStatistics:
        """Return a snapshot of the queue. Costs O(n)."""
        now = self._clock.time()
        ages = [now - run.started for run in self._processing.values()]
        return QueueStatistics(
            ready=len(self._order),
            dirty=dict(Counter(self._priority[key] for key in self._dirty)),
            delayed=len(self._delays),
            processing=len(self._processing),
            failing=len(self._failures),
            unfinished=math.fsum(ages),
            longest_running=max(ages, default=0.0),
        )

    def snapshot(self, limit: int) -> QueueSnapshot[K]:
        """Return the statistics and at most `limit` keys of each sort. Costs O(n)."""
        now = self._clock.time()
        runs = self._processing
        oldest = nsmallest(limit, runs, key=lambda key: runs[key].started)
        return QueueSnapshot(
            statistics=self.statistics(),
            running=tuple(RunningKey(key, now - runs[key].started) for key in oldest),
            failing=tuple(self._failing(key, now) for key in self._failures.oldest(limit)),
        )

    def _failing(self, key: K, now: float) -> FailingKey[K]:
        due = None
        if key in self._order:
            due = 0.0
        elif key in self._delays:
            due = max(0.0, self._delays.due(key) - now)
        failures = self._failures
        return FailingKey(key, failures.count(key), now - failures.since(key), due)

    def _schedule(self, key: K, delay: float, priority: int | None) -> None:
        if not self._open:
            return
        now = self._clock.time()
        self._prioritise(key, priority, now)
        if key in self._dirty:
            return
        when = max(now + delay, self._held_until(key))
        if when <= now:
            self._delays.discard(key)
            self._mark_dirty(key, now)
        elif key not in self._delays or when < self._delays.due(key):
            self._delays.set(key, when)

    def _prioritise(self, key: K, priority: int | None, now: float) -> None:
        present = self._priority.get(key)
        if present is None:
            run = self._processing.get(key)
            inherited = run.priority if run else 0
            self._priority[key] = inherited if priority is None else priority
        elif priority is not None and priority > present:
            self._priority[key] = priority
            if key in self._order:
                # To the back of its new priority, unless ageing has moved it further.
                self._push(key, min(self._rank(key, now), self._order.rank(key)))

    def _mark_dirty(self, key: K, since: float) -> None:
        self._dirty[key] = since
        self._recorder.added()
        if key not in self._processing:
            self._enqueue(key, since)

    def _enqueue(self, key: K, ready: float) -> None:
        self._push(key, self._rank(key, ready))
        self._news.set()

    def _push(self, key: K, rank: float) -> None:
        self._order.push(key, rank, begun=self._priority[key] >= 0 and self._begun(key))

    def _rank(self, key: K, ready: float) -> float:
        return ready - self._priority[key] * AGEING

    def _hand_out(self) -> K:
        key = self._order.pop()
        now = self._clock.time()
        waited = max(0.0, now - self._dirty.pop(key))
        self._recorder.started(waited)
        self._held.pop(key, None)
        self._processing[key] = _Run(self._priority.pop(key), now, waited)
        return key

    def _hold_back(self, key: K) -> None:
        """Delay a run that was requested during the current run until the hold ends."""
        if not self._open:
            return
        until = self._held_until(key)
        if until <= self._clock.time():
            return
        was_dirty = self._dirty.pop(key, None) is not None
        if was_dirty or (key in self._delays and self._delays.due(key) < until):
            self._delays.set(key, until)

    def _held_until(self, key: K) -> float:
        return max(self._failures.held_until(key), self._held.get(key, -math.inf))
