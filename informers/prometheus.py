"""Metrics of informers for Prometheus, with upstream's names where there are any.

All but processing times are computed from `statistics()` when Prometheus scrapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from informers.informer import InformerMetrics, InformerStatistics
from informers.listing import Clock

_LABELS = ("name", "group", "version", "resource")
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_DIGITS = 15
"""Trailing digits of a revision that a float64 holds exactly."""


class InformerLabels(Struct, frozen=True):
    """Labels of one informer. `name` must be unique in the process."""

    name: str
    group: str
    version: str
    resource: str

    @property
    def labels(self) -> tuple[str, str, str, str]:
        """Values in the order of the label names."""
        return self.name, self.group, self.version, self.resource


class InformerCollector(Collector):
    """All informers of a process, in one registry."""

    def __init__(self, registry: CollectorRegistry, *, clock: Clock) -> None:
        self._clock = clock
        self._recorders: dict[str, InformerRecorder] = {}
        self._latency = Histogram(
            "informer_processing_latency_seconds",
            "Time to apply one event or list to the store and notify the handlers",
            _LABELS,
            buckets=_BUCKETS,
            registry=registry,
        )
        registry.register(self)

    def recorder(self, identity: InformerLabels) -> InformerRecorder:
        """Return the metrics of one informer; released when it stops.

        Raises:
            ValueError: the name is empty, or used by an informer that has not stopped.
        """
        if not identity.name:
            raise ValueError("an informer without a name cannot be told apart from others")
        if identity.name in self._recorders:
            raise ValueError(f"there is an informer named {identity.name!r} already")
        latency = self._latency.labels(*identity.labels)
        recorder = InformerRecorder(identity, latency, release=self._release)
        self._recorders[identity.name] = recorder
        return recorder

    def _release(self, recorder: InformerRecorder) -> None:
        if self._recorders.get(recorder.identity.name) is recorder:
            del self._recorders[recorder.identity.name]

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples, with which a registry detects name clashes."""
        return _families().values()

    def collect(self) -> Iterable[Metric]:
        """Return the current state of all informers."""
        families = _families()
        for recorder in self._recorders.values():
            if recorder.statistics is not None:
                _add(families, recorder.identity.labels, recorder.statistics(), self._clock.time())
        return families.values()


class InformerRecorder(InformerMetrics):
    """The metrics of one informer."""

    def __init__(
        self,
        identity: InformerLabels,
        latency: Histogram,
        *,
        release: Callable[[InformerRecorder], None],
    ) -> None:
        self.identity = identity
        self.processed = latency.observe
        self.statistics: Callable[[], InformerStatistics] | None = None
        self._release = release

    def started(self, statistics: Callable[[], InformerStatistics]) -> None:
        """Store the function that reads everything else."""
        self.statistics = statistics

    def stopped(self) -> None:
        """Release the name."""
        self._release(self)


_GAUGES = {
    "informer_store_resource_version": f"Last {_DIGITS} digits of the store's resource version",
    "informer_synced": "Whether the store has held a complete list",
    "informer_objects": "Objects in the store",
    "informer_quarantined_objects": "Objects that do not fit their type",
    "informer_silence_seconds": "Time since the last byte from the server",
}
_COUNTERS = {
    "informer_relists": "Lists after the first, by cause",
    "informer_watch_restarts": "Watches resumed without a list, by cause",
    "informer_streaming_fall_backs": "Streaming lists given up for paged ones",
    "informer_skipped_events": "Events that were unknown, repeated or without metadata",
    "informer_handler_failures": "Notifications on which a handler raised",
}
_EXTRA_LABELS = {
    "informer_relists": ("cause",),
    "informer_watch_restarts": ("cause",),
    "informer_handler_failures": ("handler",),
}


def _families() -> dict[str, GaugeMetricFamily | CounterMetricFamily]:
    gauges = {name: GaugeMetricFamily(name, text, labels=_LABELS) for name, text in _GAUGES.items()}
    counters = {
        name: CounterMetricFamily(name, text, labels=_LABELS + _EXTRA_LABELS.get(name, ()))
        for name, text in _COUNTERS.items()
    }
    return {**gauges, **counters}


def _add(
    families: Mapping[str, GaugeMetricFamily | CounterMetricFamily],
    labels: tuple[str, ...],
    seen: InformerStatistics,
    now: float,
) -> None:
    digits = seen.resource_version[-_DIGITS:]
    values: dict[str, float] = {
        "informer_store_resource_version": float(digits) if digits.isdecimal() else 0.0,
        "informer_synced": seen.has_synced,
        "informer_objects": seen.objects,
        "informer_quarantined_objects": seen.quarantined,
        "informer_streaming_fall_backs": seen.fall_backs,
        "informer_skipped_events": seen.skipped,
    }
    if seen.last_byte is not None:
        values["informer_silence_seconds"] = now - seen.last_byte
    for name, value in values.items():
        families[name].add_metric(labels, value)
    by_label: dict[str, Mapping[str, int]] = {
        "informer_relists": seen.relists,
        "informer_watch_restarts": seen.watch_restarts,
        "informer_handler_failures": seen.handler_failures,
    }
    for name, counts in by_label.items():
        for label, count in counts.items():
            families[name].add_metric((*labels, label), count)
