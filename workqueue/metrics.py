"""What a queue tells about itself: events to a recorder, and a snapshot to whoever asks.

Gauges are read from the snapshot when somebody looks, never kept up to date: a depth that is
counted afresh cannot drift or become negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class QueueStatistics:
    """One moment of a queue. Durations are in seconds.

    Attributes:
        ready: keys that a worker could take now.
        dirty: keys that need a run, by priority: the ready ones and those that were asked for
            again while in flight. Only priorities that occur are listed.
        delayed: keys that wait for their time.
        processing: keys in flight.
        failing: keys with at least one failure since they were last forgotten.
        unfinished: sum of the ages of all runs in flight. Growing means a stuck worker.
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
    """Is told what happens in one queue. This one does not listen."""

    def added(self) -> None:
        """Hear that a key became dirty: an add that deduplication let pass."""

    def retried(self) -> None:
        """Hear that a key was asked for with a delay."""

    def started(self, waited: float, /) -> None:
        """Hear that a key was handed out, `waited` seconds after it became dirty."""

    def finished(self, worked: float, /) -> None:
        """Hear that a key is done, `worked` seconds after it was handed out."""


class QueueMetrics(Protocol):
    """Where queues report to. One serves many queues, told apart by their names."""

    def recorder(self, name: str, snapshot: Callable[[], QueueStatistics]) -> QueueRecorder:
        """Return the recorder for the queue `name`, whose gauges are read from `snapshot`."""
        ...
