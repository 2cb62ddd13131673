"""Prometheus collectors that compute their metrics from current state at each scrape.

Nothing is counted in advance, so nothing is left behind when what is measured is gone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client.core import Metric

T = TypeVar("T")


class StateCollector(Collector, ABC, Generic[T]):
    """Metrics of one value; give it to `CollectorRegistry.register`.

    Args:
        read: returns the present value.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read

    @abstractmethod
    def metrics(self, current: T, /) -> Iterable[Metric]:
        """The metrics of a value."""

    def describe(self) -> Iterable[Metric]:
        """Name nothing before the first scrape, so that registering reads nothing."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of the present value."""
        return self.metrics(self._read())


class ObjectCollector(StateCollector[Iterable[T]]):
    """Metrics of all cached objects of a kind.

    Args:
        read: returns the objects.
    """

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples, with which a registry detects name clashes."""
        return self.metrics(())
