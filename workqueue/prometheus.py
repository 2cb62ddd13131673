"""Metrics of queues for Prometheus, under the names of client-go and controller-runtime.

Existing dashboards and alerts therefore work. The queue updates counters and histograms; gauges
are computed from its statistics on each scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from workqueue.queue import QueueRecorder, QueueStatistics

# "controller" repeats "name": controller-runtime's dashboards group by it.
_LABELS = ("name", "controller")
_SECONDS = tuple(float(f"1e{exponent}") for exponent in range(-8, 4))

MOST_PRIORITIES = 25
"""Maximum number of values of the label `priority`; all others share one series."""

OTHER_PRIORITIES = "exceeded_cardinality_limit"


class QueueCollector(Collector):
    """Serves any number of queues in one registry.

    If a name is used again, for example by a controller that restarts on becoming leader, its
    counters and histograms continue and its gauges are those of the latest queue.

    Raises:
        ValueError: the registry already has these metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._queues: dict[str, Callable[[], QueueStatistics]] = {}
        self._priorities = {"0"}
        self._adds = Counter(
            "workqueue_adds_total",
            "Total number of adds handled by workqueue",
            _LABELS,
            registry=registry,
        )
        self._retries = Counter(
            "workqueue_retries_total",
            "Total number of retries handled by workqueue",
            _LABELS,
            registry=registry,
        )
        self._waits = Histogram(
            "workqueue_queue_duration_seconds",
            "How long in seconds a key stays dirty before a worker takes it",
            _LABELS,
            registry=registry,
            buckets=_SECONDS,
        )
        self._runs = Histogram(
            "workqueue_work_duration_seconds",
            "How long in seconds the run of a key takes",
            _LABELS,
            registry=registry,
            buckets=_SECONDS,
        )
        registry.register(self)

    def recorder(self, name: str, snapshot: Callable[[], QueueStatistics]) -> QueueRecorder:
        """Return the recorder of the queue `name`, whose gauges are read from `snapshot`."""
        self._queues[name] = snapshot
        labels = (name, name)
        return _PrometheusRecorder(
            self._adds.labels(*labels),
            self._retries.labels(*labels),
            self._waits.labels(*labels),
            self._runs.labels(*labels),
        )

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the gauges without values, with which a registry detects name clashes."""
        return _gauges()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the current gauges of all queues."""
        gauges = depth, unfinished, longest = _gauges()
        for name, snapshot in self._queues.items():
            statistics = snapshot()
            unfinished.add_metric((name, name), statistics.unfinished)
            longest.add_metric((name, name), statistics.longest_running)
            for priority, keys in self._depths(statistics).items():
                depth.add_metric((name, name, priority), keys)
        return gauges

    def _depths(self, statistics: QueueStatistics) -> dict[str, int]:
        """Return the number of dirty keys by label, with a zero for each label used before."""
        labels = {priority: self._label(priority) for priority in statistics.dirty}
        depths = dict.fromkeys(sorted(self._priorities), 0)
        for priority, label in labels.items():
            depths[label] += statistics.dirty[priority]
        return depths

    def _label(self, priority: int) -> str:
        """Return the label of `priority`: the first priorities have labels of their own."""
        label = str(priority)
        if label not in self._priorities and len(self._priorities) >= MOST_PRIORITIES:
            label = OTHER_PRIORITIES
        self._priorities.add(label)
        return label


class _PrometheusRecorder(QueueRecorder):
    def __init__(self, adds: Counter, retries: Counter, waits: Histogram, runs: Histogram) -> None:
        self.added = adds.inc
        self.retried = retries.inc
        self.started = waits.observe
        self.finished = runs.observe


def _gauges() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
    return (
        GaugeMetricFamily(
            "workqueue_depth",
            "Current depth of workqueue by priority",
            labels=(*_LABELS, "priority"),
        ),
        GaugeMetricFamily(
            "workqueue_unfinished_work_seconds",
            "Sum of the ages in seconds of all runs in flight; if it grows, a worker is stuck",
            labels=_LABELS,
        ),
        GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "Age in seconds of the oldest run in flight",
            labels=_LABELS,
        ),
    )
