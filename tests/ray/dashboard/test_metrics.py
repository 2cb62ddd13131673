"""What can be scraped of the dashboards."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry, generate_latest

from controller.ray.dashboard import DashboardCollector, DashboardMetrics
from tests.ray.dashboard.kit import HEAD, JOB, head, world
from tests.ray.dashboard.simulated import Fault


async def test_requests_commands_and_dashboards_that_fail_can_be_scraped():
    registry = CollectorRegistry()
    async with world(metrics=DashboardMetrics(registry)) as it:
        registry.register(DashboardCollector(it.actors.statistics))
        it.ray.fault(Fault.SILENT, cluster="dead")
        it.watch()
        it.watch("ns/dead", head("dead"))
        it.submit()
        it.submit("ns/dead", head("dead"), within=10, job_id="other")
        await asyncio.sleep(60)

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(f"manta_dashboard_{name}", labels)

        assert value("actors") == 2
        assert value("failing") == 1
        assert value("probes") == 2
        assert value("open_commands") == 0
        assert value("commands_total", command="submit", outcome="done") == 1
        assert value("commands_total", command="submit", outcome="expired") == 1
        assert value("request_seconds_count", request="submit", result="answered") == 1
        assert value("request_seconds_count", request="job", result="answered") > 5
        assert value("request_seconds_count", request="job", result="no_answer") > 1
        assert value("requests_in_flight", responsiveness="responsive") == 0
        it.leave()
        it.leave("ns/dead")
        assert value("actors") == value("failing") == value("probes") == 0
        assert b"manta_dashboard_waiting" in generate_latest(registry)
        assert it.actors.observation(HEAD, JOB) is None
