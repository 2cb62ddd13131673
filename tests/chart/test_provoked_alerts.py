"""Each fault fires its alert, in the unchanged rules and with the metrics of a real operator."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.runtime.plan import Plan
from controller.testing.faults import DelayedRequest, ErrorResponse, Lag, Refused, Rule
from tests.chart.prometheus import needs_promtool
from tests.chart.provoked import Scrapes, firing, start
from tests.runtime.widgets import Seen, WidgetKind, WidgetWorld, widget_world

pytestmark = [pytest.mark.slow, needs_promtool]

CREATE = frozenset({"create"})
LIST = frozenset({"list", "watch"})
FORBIDDEN = ErrorResponse(403, "Forbidden", "no")

FAULTS: dict[str, tuple[Rule | None, set[str]]] = {
    "none": (None, set()),
    "a missing right": (
        Rule(FORBIDDEN, "configmaps", CREATE),
        {"MantaRequestsForbidden", "MantaReconcileErrors"},
    ),
    "a server that fails": (
        Rule(ErrorResponse(500, "InternalError", "no"), "", CREATE),
        {"MantaApiServerErrors", "MantaWritesUnconfirmed"},
    ),
    "a server out of reach for writes": (
        Rule(Refused(), "", CREATE),
        {"MantaApiServerErrors", "MantaReconcileErrors"},
    ),
    "a proxy that holds watches back": (
        Rule(Lag(36_000.0), "configmaps"),
        {"MantaWatchSilent", "MantaWritesUnconfirmed"},
    ),
}


class Watched:
    def __init__(self, world: WidgetWorld) -> None:
        self.world = world
        self.scrapes = Scrapes()
        self.registry = CollectorRegistry()

    async def pass_(self, minutes: int) -> None:
        await self.scrapes.follow(self.registry, minutes=minutes)


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    async with widget_world() as world:
        yield Watched(world)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_fires_its_alerts_and_no_others(fault: str, tmp_path: Path):
    rule, expected = FAULTS[fault]
    async with watched() as seen:
        start(seen.world, WidgetKind(), registry=seen.registry, rules=[rule] if rule else [])
        await seen.pass_(2)
        for number in range(3):
            await seen.world.create(f"w{number}", size=60)
        await seen.pass_(90)
    assert firing(tmp_path, seen.scrapes).keys() == expected


async def test_a_fault_of_the_operator_fires(tmp_path: Path):
    def fail(_seen: Any) -> Any:
        raise KeyError("a")

    async with watched() as seen:
        start(seen.world, WidgetKind(plan_hook=fail), registry=seen.registry)
        await seen.pass_(2)
        await seen.world.create()
        await seen.pass_(30)
    assert {"MantaReconcilePanics", "MantaReconcileErrors"} <= firing(tmp_path, seen.scrapes).keys()


async def test_reconciles_that_a_slow_server_keeps_from_ending_fire(tmp_path: Path):
    kind, numbers = WidgetKind(), itertools.count()

    def one_after_the_other(seen: Seen) -> Plan:
        names = [f"c{next(numbers)}" for _ in range(8)]
        return Plan(stages=tuple((kind.create(seen.widget, name),) for name in names))

    kind.plan_hook = one_after_the_other
    async with watched() as seen:
        slow = Rule(DelayedRequest(25.0), "configmaps", CREATE)
        start(seen.world, kind, registry=seen.registry, rules=[slow])
        await seen.pass_(2)
        await seen.world.create()
        await seen.pass_(60)
    (alert,) = firing(tmp_path, seen.scrapes)["MantaReconcileStuck"]
    assert alert["controller"] == "widget-controller"


@pytest.mark.parametrize(("seconds", "fires"), [(3.0, True), (0.3, False)])
async def test_work_that_blocks_the_event_loop_fires(
    seconds: float, tmp_path: Path, *, fires: bool
):
    async with watched() as seen:
        kind = WidgetKind(plan_hook=lambda _seen: seen.world.loop.block(seconds))
        start(seen.world, kind, registry=seen.registry)
        await seen.pass_(2)
        creating = asyncio.create_task(create_every_ten_seconds(seen.world))
        await seen.pass_(30)
        creating.cancel()
    alerts = firing(tmp_path, seen.scrapes).get("MantaEventLoopBlocked", [])
    assert bool(alerts) == fires


async def create_every_ten_seconds(world: WidgetWorld) -> None:
    for number in itertools.count():
        await world.create(f"w{number}", size=1)
        await asyncio.sleep(10)


@pytest.mark.parametrize(("seconds", "fires"), [(5.0, True), (0.01, False)])
async def test_many_objects_that_wait_for_few_workers_fire(
    seconds: float, tmp_path: Path, *, fires: bool
):
    async with watched() as seen:
        slow = Rule(DelayedRequest(seconds), "configmaps", CREATE)
        few = {"workers": 1, "slow_reconciles": 1}
        start(seen.world, WidgetKind(), registry=seen.registry, rules=[slow], **few)
        await seen.pass_(2)
        for number in range(600):
            await seen.world.create(f"w{number}", size=1)
        await seen.pass_(25)
    alerts = firing(tmp_path, seen.scrapes).get("MantaQueueWaits", [])
    assert [each["controller"] for each in alerts] == (["widget-controller"] if fires else [])


@pytest.mark.parametrize("crashes", [True, False])
async def test_a_process_that_cannot_list_fires_although_it_is_started_again_and_again(
    tmp_path: Path, *, crashes: bool
):
    """Kubernetes waits longer from start to start, five minutes at most."""
    async with watched() as seen:
        for pause in (0, 1, 1, 2, 3, 5, 5, 5):
            seen.registry = CollectorRegistry()
            rules = [Rule(FORBIDDEN, "configmaps", LIST)] if crashes or pause < 5 else []
            running = start(seen.world, WidgetKind(), registry=seen.registry, rules=rules)
            await seen.pass_(2)
            await running.kill()
            await seen.scrapes.follow(None, minutes=pause)
    alerts = firing(tmp_path, seen.scrapes)
    assert [each["resource"] for each in alerts.get("MantaCachesNotSynced", [])] == (
        ["configmaps"] if crashes else []
    )
