"""Metrics of the runtime with controller-runtime's names and buckets, and a few of its own.

All are registered in the registry that is passed in; nothing is global.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from controller.kube.client import Client
from controller.kube.objects import ObjectMeta
from controller.kube.resources import Resource
from controller.kube.transport import ClientMetrics
from controller.runtime.expectations import ExpectationStatistics
from controller.runtime.recorder import RecorderStatistics
from workqueue import Workers

ResultLabel = Literal["success", "error", "requeue", "requeue_after"]

RESULTS: tuple[ResultLabel, ...] = ("success", "error", "requeue", "requeue_after")

# fmt: off
RECONCILE_BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
)
# fmt: on
PHASE_BUCKETS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
PAUSE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


# Bases of collectors that compute their metrics from current state at each scrape.
#
# Nothing is counted in advance, so no series outlives the object that it measures.

T = TypeVar("T")


class StateCollector(Collector, ABC, Generic[T]):
    """Metrics of one value; give it to `CollectorRegistry.register`."""

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read

    @abstractmethod
    def metrics(self, current: T, /) -> Iterable[Metric]:
        """Return the metrics of a value."""

    def describe(self) -> Iterable[Metric]:
        """Name nothing before the first scrape, so that registering reads nothing."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of the present value."""
        return self.metrics(self._read())


_IDENTITY: Final = ("name", "namespace", "uid")
"""Labels of a metric about one object, as KubeRay names them."""


def object_gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    """Return a gauge with a sample for each object, labelled with `identity` and these labels."""
    return GaugeMetricFamily(name, text, labels=[*_IDENTITY, *labels])


def identity(meta: ObjectMeta) -> list[str]:
    """Return the values of the labels that tell an object from any other."""
    return [meta.name, meta.namespace, meta.uid]


OBJECTS: Final = 25
"""Objects whose metrics are computed before the event loop may run again."""


class ObjectCollector(StateCollector[Iterable[T]]):
    """Metrics of all cached objects of a kind.

    An object with unexpected contents, from which no metric can be made, is left out.
    """

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of the present objects: every family once for `OBJECTS` objects.

        They are computed on demand, so a scrape can let others run between them.
        """
        objects = list(self._read())
        for start in range(0, max(1, len(objects)), OBJECTS):
            yield from self._sound_metrics(objects[start : start + OBJECTS])

    def _sound_metrics(self, objects: list[T]) -> list[Metric]:
        found = self._metrics(objects)
        if found is None:
            sound = [each for each in objects if self._metrics([each]) is not None]
            found = list(self.metrics(sound))
        return found

    def _metrics(self, objects: list[T]) -> list[Metric] | None:
        """Return the metrics, None if they cannot be made or written."""
        try:
            found = list(self.metrics(objects))
            for sample in (each for metric in found for each in metric.samples):
                _written(sample)
        except Exception:  # noqa: BLE001  whatever an object holds, the others have metrics
            return None
        return found

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples, with which a registry detects name clashes."""
        return self.metrics(())


def _written(sample: Sample) -> str:
    """Return the sample as text; raise an error if a label is None or the value is not a number."""
    return f"{''.join(sample.labels.values())} {float(sample.value)}"


class RuntimeMetrics:
    """Counters and histograms of the controllers and the process.

    Args:
        registry: where to register. Raises ValueError if it has such metrics already.
    """

    def __init__(self, registry: CollectorRegistry, *, version: str) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, ("controller", *labels), registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, ("controller",), registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=registry)

        self._reconciles = counter(
            "controller_runtime_reconcile_total",
            "Total number of reconciliations per controller",
            "result",
        )
        self._errors = counter(
            "controller_runtime_reconcile_errors_total",
            "Total number of reconciliation errors per controller",
        )
        self._terminal_errors = counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Total number of terminal reconciliation errors per controller",
        )
        self._panics = counter(
            "controller_runtime_reconcile_panics_total",
            "Total number of unexpected exceptions per controller",
        )
        self._timeouts = counter(
            "controller_runtime_reconcile_timeouts_total",
            "Total number of reconciliations that exceeded their time limit per controller",
        )
        self._seconds = histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller",
            RECONCILE_BUCKETS,
            "controller",
        )
        self._workers = gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles per controller",
        )
        self._active = gauge(
            "controller_runtime_active_workers",
            "Number of currently used workers per controller",
        )
        self._slow = gauge(
            "manta_slow_reconciles",
            "Reconciles whose requests take so long that they no longer use a worker",
        )
        self._planning = histogram(
            "manta_plan_seconds",
            "Time in seconds to observe and plan, during which nothing else runs",
            PAUSE_BUCKETS,
            "controller",
        )
        self._first_write = histogram(
            "manta_first_write_seconds",
            "Time in seconds from an event or deadline until the first write of the reconcile was "
            "sent, for reconciles that write",
            RECONCILE_BUCKETS,
            "controller",
        )
        self._phases = histogram(
            "manta_phase_seconds",
            "Time in seconds that a phase in the life of an object took, once it ended",
            PHASE_BUCKETS,
            *("controller", "phase"),
        )
        self._writes = counter("manta_writes_total", "Writes of reconciles, by verb", "verb")
        self._stale = counter(
            "stale_sync_skips_total",
            "Reconciles in which a write of unknown outcome kept part of an object from changing",
            *("group", "resource"),
        )
        self.loop_lag = histogram(
            "manta_event_loop_lag_seconds",
            "Delay in seconds of scheduled calls of the event loop",
            PAUSE_BUCKETS,
        )
        self.gc_pauses = histogram(
            "manta_gc_pause_seconds",
            "Duration in seconds of a run of the garbage collector",
            PAUSE_BUCKETS,
            "generation",
        )
        build = Info("manta_build", "Version of Manta and of Python", registry=registry)
        build.info({"version": version, "python": sys.version.split()[0]})

    def controller(self, name: str, workers: int) -> ControllerMetrics:
        """Return metrics of one controller; its series exist from now on, at 0."""
        self._workers.labels(name).set(workers)
        for result in RESULTS:
            self._reconciles.labels(name, result)
        return ControllerMetrics(
            reconciled=lambda result: self._reconciles.labels(name, result).inc(),
            errors=self._errors.labels(name),
            terminal_errors=self._terminal_errors.labels(name),
            panics=self._panics.labels(name),
            timeouts=self._timeouts.labels(name),
            seconds=self._seconds.labels(name),
            active=self._active.labels(name),
            slow=self._slow.labels(name),
            planning=self._planning.labels(name),
            first_write=self._first_write.labels(name).observe,
            phase=lambda phase, seconds: self._phases.labels(name, phase).observe(seconds),
            wrote=lambda verb, count: self._writes.labels(name, verb).inc(count),
            stale=lambda resource: self._stale.labels(name, resource.group, resource.plural).inc(),
        )


class ControllerMetrics(Struct, frozen=True):
    """The metrics of one controller."""

    reconciled: Callable[[ResultLabel], None]
    errors: Counter
    terminal_errors: Counter
    panics: Counter
    timeouts: Counter
    seconds: Histogram
    active: Gauge
    slow: Gauge
    planning: Histogram
    first_write: Callable[[float], None]
    phase: Callable[[str, float], None]
    wrote: Callable[[str, int], None]
    stale: Callable[[Resource[Any]], None]

    def observe_workers(self, workers: Workers[Any]) -> None:
        """Read at each scrape how busy these are."""
        self.active.set_function(lambda: workers.busy)
        self.slow.set_function(lambda: workers.released)


class ExpectationCollector(StateCollector["ExpectationStatistics"]):
    """The statistics of the expectations."""

    def metrics(self, current: ExpectationStatistics, /) -> Iterable[Metric]:
        """Return all of them."""
        yield _gauge("open", "Objects whose cached state lacks an own write", current.expectations)
        yield _gauge("pending", "Own writes that the cache does not show yet", current.pending)
        yield _gauge("oldest_seconds", "Age in seconds of the oldest of them", current.oldest_age)
        yield _gauge("unknown_writes", "Writes whose response was lost", current.unknown)
        yield CounterMetricFamily(
            "manta_expectations_live_reads",
            "Expectations resolved by a live read",
            value=current.live_reads,
        )


class ClientCollector(StateCollector["Client"]):
    """Collects what keeps the requests of a client waiting."""

    def metrics(self, current: Client, /) -> Iterable[Metric]:
        """Yield slots and paused lanes; a pause of all requests has the label `all` twice."""
        limiter = current.limiter
        requests = GaugeMetricFamily(
            "manta_client_requests",
            "Requests that wait for a slot, those in flight, and writes in flight that take long",
            labels=("state",),
        )
        for state, count in (
            ("waiting", limiter.waiting),
            ("in_flight", limiter.in_flight),
            ("slow", limiter.slow),
        ):
            requests.add_metric((state,), count)
        yield requests
        lanes = GaugeMetricFamily(
            "manta_client_paused_lanes",
            "Namespaces in which such requests wait because the API server asked for it",
            labels=("verb", "resource"),
        )
        for labels, count in sorted(current.pauses.paused().items()):
            lanes.add_metric(labels, count)
        yield lanes


class EventCollector(StateCollector["RecorderStatistics"]):
    """The statistics of the event recorder."""

    def metrics(self, current: RecorderStatistics, /) -> Iterable[Metric]:
        """Return all of them."""
        yield CounterMetricFamily("manta_events_sent", "Event objects created", value=current.sent)
        dropped = CounterMetricFamily(
            "manta_events_dropped", "Events that were not sent, by cause", labels=("cause",)
        )
        for cause in ("spam", "overflow", "failed"):
            dropped.add_metric((cause,), getattr(current, cause))
        yield dropped


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"manta_expectations_{name}", text, value=value)


# Metrics of clients for Prometheus, under the names that client-go gave them.

DURATIONS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZES = (64.0, 256.0, 512.0, 1024.0, 4096.0, *(float(4**power) for power in range(7, 13)))


class RestClientMetrics:
    """The `rest_client_*` metrics of one registry, shared by all clients of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            wanted = labels or ("verb", "host")
            return Histogram(name, text, wanted, buckets=buckets, registry=registry)

        self.requests = counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            *("code", "method", "host"),
        )
        self.retries = counter(
            "rest_client_request_retries_total",
            "Number of request retries, partitioned by status code, verb, and host.",
            *("code", "verb", "host"),
        )
        self.duration = histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds, by verb and host.",
            DURATIONS,
        )
        self.waiting = histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Seconds that requests waited in the client, by verb and host.",
            DURATIONS,
        )
        self.resolution = histogram(
            "rest_client_dns_resolution_duration_seconds",
            "DNS resolver latency in seconds, by host.",
            DURATIONS[:-1],
            "host",
        )
        self.request_size = histogram(
            "rest_client_request_size_bytes", "Request size in bytes, by verb and host.", SIZES
        )
        self.response_size = histogram(
            "rest_client_response_size_bytes", "Response size in bytes, by verb and host.", SIZES
        )

    def for_host(self, host: str) -> ClientMetrics:
        """Return the metrics of a client of `host` (`10.0.0.1:6443`)."""
        return _HostMetrics(self, host)


class _HostMetrics(ClientMetrics):
    """Adds the host to the labels of one client."""

    def __init__(self, metrics: RestClientMetrics, host: str) -> None:
        self._metrics = metrics
        self._host = host

    def record_attempt(self, method: str, code: str, seconds: float | None) -> None:
        self._metrics.requests.labels(code, method, self._host).inc()
        if seconds is not None:
            self._metrics.duration.labels(method, self._host).observe(seconds)

    def record_retry(self, method: str, code: str) -> None:
        self._metrics.retries.labels(code, method, self._host).inc()

    def record_wait(self, method: str, seconds: float) -> None:
        self._metrics.waiting.labels(method, self._host).observe(seconds)

    def record_transfer(self, method: str, sent: int, received: int) -> None:
        self._metrics.request_size.labels(method, self._host).observe(sent)
        self._metrics.response_size.labels(method, self._host).observe(received)

    def record_resolution(self, seconds: float) -> None:
        self._metrics.resolution.labels(self._host).observe(seconds)
