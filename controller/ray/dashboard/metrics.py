"""The metrics of the dashboards, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from controller.runtime.metrics import StateCollector


class DashboardStatistics(Struct, frozen=True):
    """The present numbers of the actors.

    Attributes:
        actors: head incarnations with a subscriber or an open command.
        failing: actors whose head has not answered for a while.
        probes: probes with a subscriber.
        commands: open commands.
        waiting: actors that wait for a slot.
        in_flight: requests in flight, by the result of the head's previous request.
    """

    actors: int
    failing: int
    probes: int
    commands: int
    waiting: int
    in_flight: Mapping[str, int]


_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class DashboardMetrics:
    """Counts requests and commands.

    Args:
        registry: registry of the metrics; one of their own if nobody reads them.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self._seconds = Histogram(
            "manta_dashboard_request_seconds",
            "Time in seconds of requests to Ray dashboards, by request and result",
            ("request", "result"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._commands = Counter(
            "manta_dashboard_commands_total",
            "Commands to Ray dashboards that have ended, by outcome",
            ("command", "outcome"),
            registry=registry,
        )

    def record_request(self, request: str, result: str, seconds: float) -> None:
        """Record the result of a request (`job`, `serve`, `nodes`, `submit` ...).

        Results: `answered`, `unfinished`, `refused`, `unusable`, `no_answer`, `not_sent`.
        """
        self._seconds.labels(request, result).observe(seconds)

    def record_command(self, command: str, outcome: str) -> None:
        """Record the end of a command: `done`, `refused` or `expired`."""
        self._commands.labels(command, outcome).inc()


class DashboardCollector(StateCollector["DashboardStatistics"]):
    """Collects the statistics of the actors."""

    def metrics(self, current: DashboardStatistics, /) -> Iterable[Metric]:
        """Yield all metrics."""
        for name, text, value in (
            ("actors", "Heads whose dashboards are probed or have open commands", current.actors),
            ("failing", "Dashboards that have not answered for a while", current.failing),
            ("probes", "Probes of dashboards that an object subscribes to", current.probes),
            ("open_commands", "Commands to dashboards that have not ended", current.commands),
            ("waiting", "Dashboards that wait for a request slot", current.waiting),
        ):
            yield GaugeMetricFamily(f"manta_dashboard_{name}", text, value=value)
        in_flight = GaugeMetricFamily(
            "manta_dashboard_requests_in_flight",
            "Requests to dashboards under way, by how the last request to the head went",
            labels=("responsiveness",),
        )
        for responsiveness, count in current.in_flight.items():
            in_flight.add_metric((responsiveness,), count)
        yield in_flight
