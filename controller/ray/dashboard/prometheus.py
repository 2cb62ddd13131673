"""The dashboards' metrics in Prometheus form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from controller.ray.dashboard.metrics import DashboardStatistics

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class DashboardMetrics:
    """What `DashboardActors` feeds: implements `RequestMetrics`.

    Args:
        registry: where to register.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
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
        """A request ended."""
        self._seconds.labels(request, result).observe(seconds)

    def record_command(self, command: str, outcome: str) -> None:
        """A command ended."""
        self._commands.labels(command, outcome).inc()


class DashboardCollector(Collector):
    """The actors' numbers, read when somebody scrapes.

    Args:
        statistics: of the actors.
    """

    def __init__(self, statistics: Callable[[], DashboardStatistics]) -> None:
        self._statistics = statistics

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """All numbers as they are now."""
        now = self._statistics()
        yield _gauge("actors", "Heads whose dashboards somebody is interested in", now.actors)
        yield _gauge("failing", "Dashboards that have not answered for a while", now.failing)
        yield _gauge("probes", "What is being watched on dashboards", now.probes)
        yield _gauge("open_commands", "Commands to dashboards that have not ended", now.commands)
        yield _gauge("waiting", "Dashboards that wait for their turn to be asked", now.waiting)
        in_flight = GaugeMetricFamily(
            "manta_dashboard_requests_in_flight",
            "Requests to dashboards under way, by what the last answer was",
            labels=("responsiveness",),
        )
        for responsiveness, count in now.in_flight.items():
            in_flight.add_metric((responsiveness,), count)
        yield in_flight


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"manta_dashboard_{name}", text, value=value)
