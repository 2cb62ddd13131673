"""Metrics interface of a queue: events for a recorder, and a snapshot for gauges.

Gauges are computed from a snapshot on demand: a depth that is counted anew each time cannot drift
or become negative.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, Protocol, TypeVar

from msgspec import Struct


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

K = TypeVar("K", bound=Hashable)


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
