"""HTTP endpoints and metrics by upstream's rows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from controller.kube.client import Client
from controller.runtime.health import Health, MonitoringServer
from controller.runtime.manager import Group, Manager
from controller.runtime.metrics import RECONCILE_BUCKETS
from controller.runtime.operator import Operator
from controller.runtime.settings import Settings
from tests.fakes.monitoring import serving
from tests.runtime.kit import NOW
from tests.runtime.widgets import WidgetKind, WidgetWorld, widget_world

pytestmark = pytest.mark.real_time  # sockets


@pytest.fixture
async def widgets() -> AsyncIterator[WidgetWorld]:
    async with widget_world() as world:
        yield world


def server(
    health: Health | None = None, registry: CollectorRegistry | None = None
) -> MonitoringServer:
    return MonitoringServer(("127.0.0.1", 0), health=health, registry=registry)


async def ask(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as answer:
        return answer.status, await answer.text()


def broken() -> str | None:
    raise RuntimeError("a password may be in here")


@pytest.mark.parametrize(
    ("served", "options"),
    [
        ({"registry": CollectorRegistry()}, "--metrics-address (of /manager: -metrics-addr)"),
        ({"health": Health()}, "--health-address (of /manager: -health-probe-bind-address)"),
        (
            {"registry": CollectorRegistry(), "health": Health()},
            (
                "--metrics-address (of /manager: -metrics-addr) or "
                "--health-address (of /manager: -health-probe-bind-address)"
            ),
        ),
    ],
)
async def test_an_address_in_use_is_an_error_at_the_start_that_names_the_option(
    served: dict[str, Any], options: str
):
    loop = asyncio.get_running_loop()
    first = MonitoringServer(("127.0.0.1", 0), health=Health())
    ready = asyncio.Event()
    task = asyncio.create_task(first.run(ready.set))
    await ready.wait()
    manager = Manager(clock=loop, grace=5.0)
    manager.add(Group.HTTP, MonitoringServer(("127.0.0.1", first.port), **served))
    with pytest.raises(ExceptionGroup) as caught:
        await manager.run(asyncio.Event())
    (error,) = caught.value.exceptions
    assert str(error) == (
        f"cannot listen on 127.0.0.1:{first.port}: Address already in use; "
        f"choose another address with {options}"
    )
    first.stop()
    await task


async def test_metrics_have_upstreams_names_and_buckets(widgets: WidgetWorld):
    registry = CollectorRegistry()
    operator = Operator(
        widgets.user,
        [WidgetKind()],
        Settings(health_address="", metrics_address=""),
        clock=widgets.loop,
        wall=widgets.wall,
        rng=random.Random(1),
        registry=registry,
    )
    stop = asyncio.Event()
    running = asyncio.create_task(operator.run(stop))
    await widgets.create(size=2)
    await widgets.counted(2)
    async with serving(server(operator.health, registry)) as session:
        assert await ask(session, "/readyz") == (200, "ok")
        async with session.get("/metrics") as answer:
            assert answer.content_type == "text/plain"
            families = {f.name: f for f in text_string_to_metric_families(await answer.text())}
    stop.set()
    assert await running == 0
    by_controller = {
        "controller_runtime_reconcile_errors",
        "controller_runtime_terminal_reconcile_errors",
        "controller_runtime_reconcile_panics",
        "controller_runtime_reconcile_timeouts",
        "controller_runtime_max_concurrent_reconciles",
        "controller_runtime_active_workers",
    }
    for name in by_controller:
        (sample,) = [s for s in families[name].samples if not s.name.endswith("_created")]
        assert sample.labels == {"controller": "widget-controller"}
    total = families["controller_runtime_reconcile"].samples
    assert {s.labels["result"] for s in total if s.name.endswith("_total")} == {
        "success",
        "error",
        "requeue",
        "requeue_after",
    }
    seconds = families["controller_runtime_reconcile_time_seconds"].samples
    bounds = [float(s.labels["le"]) for s in seconds if s.name.endswith("_bucket")]
    assert tuple(bounds[:-1]) == RECONCILE_BUCKETS
    wanted = {
        "workqueue_depth",
        "workqueue_adds",
        "workqueue_queue_duration_seconds",
        "workqueue_work_duration_seconds",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
        "workqueue_retries",
        "stale_sync_skips",
        "manta_event_loop_lag_seconds",
        "manta_gc_pause_seconds",
        "manta_expectations_pending",
        "manta_expectations_oldest_seconds",
        "manta_expectations_unknown_writes",
        "manta_expectations_live_reads",
        "manta_build_info",
        "informer_synced",
        "informer_relists",
        "process_resident_memory_bytes",
    }
    assert wanted <= families.keys()


async def test_one_server_is_enough_for_one_address_and_none_for_none():
    def servers(**addresses: str) -> int:
        operator = Operator(
            Client(None, user_agent="none", clock=asyncio.get_running_loop()),  # type: ignore[arg-type]
            [],
            Settings(**addresses),
            clock=asyncio.get_running_loop(),
            wall=lambda: NOW,
            rng=random.Random(1),
            registry=CollectorRegistry(),
        )
        return len(operator._servers())

    assert servers(health_address=":8082", metrics_address=":8080") == 2
    assert servers(health_address=":8080", metrics_address=":8080") == 1
    assert servers(health_address="0", metrics_address=":8080") == 1
    assert servers(health_address="", metrics_address="0") == 0
