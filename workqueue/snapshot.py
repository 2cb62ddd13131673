"""A snapshot of single keys of a queue, for the debug page."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from workqueue.metrics import QueueStatistics

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class RunningKey(Generic[K]):
    """A key in flight, and the seconds since it was handed out."""

    key: K
    seconds: float


@dataclass(frozen=True, slots=True)
class FailingKey(Generic[K]):
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


@dataclass(frozen=True, slots=True)
class QueueSnapshot(Generic[K]):
    """The statistics of a queue and its oldest keys.

    Attributes:
        statistics: of all keys.
        running: keys in flight, the oldest run first.
        failing: failing keys, the one that has failed for longest first.
    """

    statistics: QueueStatistics
    running: tuple[RunningKey[K], ...]
    failing: tuple[FailingKey[K], ...]
