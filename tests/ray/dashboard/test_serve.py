"""What Ray Serve says, and what is said to it."""

from __future__ import annotations

import asyncio
import json

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from controller.ray.dashboard import RefusedByRay, ServeProxy, UnusableResponse
from controller.ray.dashboard.commands import CommandDone, HeadCommand, PutServeConfig
from controller.ray.dashboard.metrics import DashboardCollector, DashboardMetrics
from controller.ray.dashboard.probes import ProbeSubscription, ProxyProbe, ServeProbe
from controller.ray.dashboard.serve import (
    ProxyHealth,
    proxy_health,
    serve_config_accepted,
    serve_state,
)
from controller.ray.dashboard.transport import DashboardResponse
from tests.ray.dashboard.kit import HEAD, JOB, World, head, world
from tests.ray.dashboard.recorded import recorded
from tests.ray.dashboard.simulated import Fault


@pytest.mark.parametrize(
    ("name", "capacity", "target", "running"),
    [
        ("serve-get-running", None, 4, 4),
        ("serve-get-target-capacity-100", 100.0, 4, 4),
        ("serve-get-target-capacity-50", 50.0, 2, 2),
        ("serve-get-target-capacity-20", 20.0, 1, 1),
        ("serve-get-target-capacity-0", 0.0, 0, 0),
    ],
)
def test_a_state_has_the_capacity_and_its_replicas(
    name: str, capacity: float | None, target: int, running: int
):
    state = serve_state(recorded(name))
    deployment = state.applications["hello"].deployments["Hello"]
    assert (state.target_capacity, deployment.target, deployment.running) == (
        capacity,
        target,
        running,
    )


def test_a_dashboard_that_does_not_tell_about_the_controller_has_found_it():
    body = b'{"applications": {}}'
    assert serve_state(DashboardResponse(200, "application/json", body)).has_controller


def test_an_answer_without_applications_is_no_state():
    for body in (b"{}", b'{"applications": null}', b'{"detail": "starting"}'):
        with pytest.raises(UnusableResponse):
            serve_state(DashboardResponse(200, "application/json", body))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "serve-put-duplicate-route-400",
            (
                "applications: Value error, Found duplicate applications for route prefix "
                '"/". Please ensure each application\'s route_prefix is unique.'
            ),
        ),
        ("serve-put-missing-import-path-400", "applications.0.import_path: Field required"),
        (
            "serve-put-target-capacity-101-400",
            "target_capacity: Input should be less than or equal to 100",
        ),
    ],
)
def test_a_refused_config_says_why(name: str, reason: str):
    with pytest.raises(RefusedByRay) as caught:
        serve_config_accepted(recorded(name))
    assert str(caught.value) == reason


def test_a_refusal_in_other_words_says_its_last_line():
    answer = DashboardResponse(400, "text/plain", b"Traceback\n  no\nValueError: not so")
    with pytest.raises(RefusedByRay, match=r"^ValueError: not so$"):
        serve_config_accepted(answer)


def test_a_page_of_a_proxy_accepts_nothing():
    with pytest.raises(UnusableResponse):
        serve_config_accepted(DashboardResponse(200, "text/html", b"<html>Welcome</html>"))


def put(it: World, name: str) -> None:
    config = {"applications": [{"name": name, "import_path": "app:app"}]}
    command = PutServeConfig(name, it.in_(600), json.dumps(config).encode())
    it.dashboards.submit("ns/job", (HeadCommand(HEAD, command),))


async def test_a_config_that_was_replaced_is_sent_again_when_it_is_wanted_again():
    async with world() as it:
        it.watch("ns/job", HEAD, ServeProbe())
        for name in ("old", "old", "new", "old"):
            put(it, name)
            await asyncio.sleep(5)
            assert it.outcome(name) == CommandDone()
        assert it.outcome("new") is None
        assert [each.method for each in it.ray.asked].count("PUT") == 3


async def test_a_config_that_could_not_be_sent_in_time_is_sent_when_the_dashboard_is_back():
    async with world() as it:
        it.watch("ns/job", HEAD, ServeProbe())
        it.ray.fault(Fault.SILENT)
        put(it, "app")
        await asyncio.sleep(700)
        assert it.outcome("app") is None
        it.ray.fault(None)
        put(it, "app")
        await asyncio.sleep(60)
        assert it.outcome("app") == CommandDone()


async def test_the_state_counts_only_after_the_config_was_accepted():
    async with world() as it:
        it.watch("ns/job", HEAD, ServeProbe())
        await asyncio.sleep(5)
        assert it.seen(probe=ServeProbe()).value is not None
        put(it, "new")
        assert it.seen(probe=ServeProbe()).value is None


PROXY = ServeProxy("cluster", "pod", 0, "default", "head-svc", 8000, pod="head", address="10.0.0.7")


def test_a_proxy_is_healthy_or_says_why_not():
    assert proxy_health(recorded("proxy-healthz-200")) == ProxyHealth(healthy=True)
    drained = proxy_health(recorded("proxy-healthz-draining-503"))
    assert drained == ProxyHealth(healthy=False, message="This node is being drained.")


@pytest.mark.parametrize(
    "answer",
    [
        recorded("proxy-404"),
        DashboardResponse(200, "text/html", b"success"),
        DashboardResponse(200, "text/plain", b"hello"),
        DashboardResponse(503, "application/json", b"{}"),
    ],
)
def test_another_server_on_the_port_says_nothing_about_a_proxy(answer: DashboardResponse):
    with pytest.raises(UnusableResponse):
        proxy_health(answer)


def ask_proxy(it: World) -> None:
    subscriptions = (ProbeSubscription(PROXY, ProxyProbe()), ProbeSubscription(HEAD, ServeProbe()))
    it.dashboards.sync("ns/svc", subscriptions)


async def test_a_proxy_is_asked_every_ten_seconds_however_long_it_is_well():
    async with world() as it:
        put(it, "app")
        ask_proxy(it)
        await asyncio.sleep(3600)
        before = sum(each.path == "/-/healthz" for each in it.ray.asked)
        await asyncio.sleep(600)
        assert sum(each.path == "/-/healthz" for each in it.ray.asked) - before in {59, 60}


@pytest.mark.parametrize("fault", [Fault.SILENT, Fault.REFUSES, Fault.HTML])
async def test_a_dead_proxy_is_reported_and_delays_nothing_of_the_dashboard(fault: Fault):
    async with world() as it:
        put(it, "app")
        ask_proxy(it)
        await asyncio.sleep(60)
        assert it.seen(PROXY, ProxyProbe()).value == ProxyHealth(healthy=True)
        it.ray.fault(fault, proxy="pod")
        await asyncio.sleep(20)
        assert it.seen(PROXY, ProxyProbe()).failing_since is not None
        assert it.seen(HEAD, ServeProbe()).failing_since is None
        it.ray.fault(None, proxy="pod")
        await asyncio.sleep(31)
        assert it.seen(PROXY, ProxyProbe()).failing_since is None


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
