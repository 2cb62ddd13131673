"""How often a key runs, and what its line says."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.kube.client import Client
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.operator import Operator
from controller.runtime.plan import Plan
from controller.runtime.settings import Settings
from controller.testing.faults import (
    DelayedRequest,
    ErrorResponse,
    Rule,
    watch_lag,
)
from tests.runtime.widgets import Seen, WidgetKind, WidgetWorld

NAME = "widget-controller"


class Thinking:
    """The loop's clock, ahead by the time that was spent thinking."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.ahead = 0.0

    def time(self) -> float:
        return self.loop.time() + self.ahead

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        return self.loop.call_at(when - self.ahead, callback, *args)


async def test_a_key_runs_at_most_twenty_times_a_second_however_often_it_is_woken(
    widgets: WidgetWorld,
):
    kind = WidgetKind(plan_hook=lambda _seen: Plan())
    operator = widgets.start(kind=kind)
    await widgets.create(size=0)
    await widgets.eventually(lambda: kind.seen)
    before = len(kind.seen)
    for _ in range(1000):
        operator.operator.controllers[NAME].enqueue("default/f")
        await asyncio.sleep(0.001)
    assert 15 <= len(kind.seen) - before <= 21
    await widgets.settle(1)
    assert len(kind.seen) - before <= 22, "the last wake-up is not lost, and there are no more"


async def test_a_key_that_takes_long_to_plan_leaves_nine_tenths_of_the_time_to_others(
    widgets: WidgetWorld,
):
    clock = Thinking()
    times: list[float] = []

    def think(_seen: Seen) -> Plan:
        times.append(clock.time())
        clock.ahead += 0.2
        return Plan()

    operator = Operator(
        Client(widgets.server, user_agent="thinker", clock=widgets.loop),
        [WidgetKind(plan_hook=think)],
        Settings(workers=4, metrics_address="", health_address=""),
        clock=clock,
        wall=widgets.wall,
        rng=random.Random(1),
        registry=CollectorRegistry(),
    )
    stop = asyncio.Event()
    running = asyncio.create_task(operator.run(stop))
    await widgets.create(size=0)
    for _ in range(1000):
        operator.controllers[NAME].enqueue("default/f")
        await asyncio.sleep(0.01)
    stop.set()
    assert await running == 0
    gaps = [round(b - a, 1) for a, b in itertools.pairwise(times)]
    assert len(gaps) >= 3
    assert min(gaps[1:]) >= 2.0


async def eight_widgets_with_creates_of(
    widgets: WidgetWorld, seconds: float, **settings: int
) -> dict[str, float | None]:
    """The metrics of workers 0.1 s after eight Widgets were created."""
    registry = CollectorRegistry()
    slow = Rule(DelayedRequest(seconds), "configmaps", frozenset({"create"}))
    quiet = Settings(workers=3, metrics_address="", health_address="", **settings)
    widgets.start(rules=[slow], registry=registry, settings=quiet)
    await widgets.settle(5)
    for number in range(8):
        await widgets.create(f"f{number}", size=1)
    await widgets.settle(0.1)
    names = {
        "active": "controller_runtime_active_workers",
        "most": "controller_runtime_max_concurrent_reconciles",
        "slow": "manta_slow_reconciles",
    }
    labels = {"controller": NAME}
    return {short: registry.get_sample_value(name, labels) for short, name in names.items()}


async def test_workers_bound_how_many_reconciles_run_at_once(widgets: WidgetWorld):
    metrics = await eight_widgets_with_creates_of(widgets, 0.2)
    assert metrics == {"active": 3, "most": 3, "slow": 0}
    await widgets.settle(0.15)
    assert len(widgets.created) == 3
    await widgets.eventually(lambda: len(widgets.created) == 8, seconds=60)


async def test_reconciles_whose_requests_hang_hold_no_worker(widgets: WidgetWorld):
    assert (await eight_widgets_with_creates_of(widgets, 10.0))["slow"] == 0
    await widgets.settle(1.5)
    operator = widgets.operators[-1].operator
    assert operator.controllers[NAME].queue.statistics().processing == 8
    assert len(widgets.created) == 0
    await widgets.settle(12)
    assert len(widgets.created) == 8


async def test_only_so_many_reconciles_whose_requests_hang_go_on_without_a_worker(
    widgets: WidgetWorld,
):
    await eight_widgets_with_creates_of(widgets, 10.0, slow_reconciles=2)
    await widgets.settle(5)
    operator = widgets.operators[-1].operator
    assert operator.controllers[NAME].queue.statistics().processing == 5


@pytest.mark.parametrize("found_at_start", [False, True])
async def test_what_has_begun_is_reported_before_all_others_have_begun(
    widgets: WidgetWorld, found_at_start: bool
):
    slow = Rule(DelayedRequest(0.2), "configmaps", frozenset({"create"}))
    one = Settings(workers=1, metrics_address="", health_address="")
    if not found_at_start:
        widgets.start(rules=[slow], settings=one)
        await widgets.settle(5)
    for number in range(40):
        await widgets.create(f"f{number}")
    if found_at_start:
        widgets.start(rules=[slow], settings=one)
    await widgets.counted(1, "f0")
    assert len(widgets.created) < 10
    await widgets.eventually(lambda: len(widgets.created) == 40, seconds=60)


async def test_a_cache_that_hears_nothing_makes_the_process_unready(widgets: WidgetWorld):
    operator = widgets.start()
    await widgets.settle(60)
    assert operator.operator.caches.unready() is None
    operator.transport.rules = [watch_lag("", 1e5)]
    await widgets.settle(800)
    assert operator.operator.caches.unready() is None
    await widgets.settle(400)
    assert "nothing heard for" in operator.operator.caches.unready()


async def test_a_failure_that_cannot_be_reported_ends_no_worker(
    widgets: WidgetWorld, monkeypatch: pytest.MonkeyPatch
):
    def raise_error(*_arguments: object) -> None:
        raise RecursionError("the status is odd")

    def plan(seen: Seen) -> Plan | None:
        if seen.widget.metadata.name.startswith("odd"):
            raise RecursionError("the specification is odd")
        return None

    monkeypatch.setattr("controller.runtime.controller.error_status", raise_error)
    settings = Settings(workers=2, metrics_address="", health_address="")
    with capture_logs() as logs:
        operator = widgets.start(kind=WidgetKind(plan_hook=plan), settings=settings)
        for number in range(4):
            await widgets.create(f"odd-{number}", size=1)
        await widgets.settle(5)
        await widgets.create("good", size=2)
        await widgets.counted(2, "good")
        assert not operator.task.done()
    assert {"error_report.failed"} < {line["event"] for line in logs}


async def test_more_than_a_batch_goes_on_without_waiting_for_any_event(widgets: WidgetWorld):
    kind = WidgetKind()
    kind.plan_hook = lambda seen: Plan(
        stages=(tuple(kind.create(seen.widget, f"b{n}") for n in range(len(seen.children), 150)),)
    )
    operator = widgets.start(kind=kind)
    await widgets.settle(5)
    operator.transport.rules = [watch_lag("configmaps", 1000.0)]
    await widgets.create(size=0)
    await widgets.eventually(lambda: widgets.children == 150, seconds=5)


async def test_a_name_that_is_taken_is_planned_again_with_back_off(widgets: WidgetWorld):
    kind = WidgetKind()
    kind.plan_hook = lambda seen: Plan(stages=((kind.create(seen.widget, "taken"),),))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken"}}
    await widgets.user.create(CONFIG_MAPS, "default", body)
    operator = widgets.start(kind=kind)
    await widgets.create(size=0)
    await widgets.settle(20)
    assert 5 <= len(kind.seen) <= 20
    assert operator.operator.controllers[NAME].queue.num_requeues("default/f") == len(kind.seen)


async def test_the_back_off_of_a_failure_does_not_put_off_a_deadline(widgets: WidgetWorld):
    kind, times = WidgetKind(), list[float]()
    deadline = widgets.loop.time() + 45.0

    def fail(seen: Seen) -> Plan:
        times.append(widgets.loop.time())
        left = deadline - times[-1]
        write = kind.create(seen.widget, "refused")
        return Plan(stages=((write,),), requeue_after=left if left > 0 else None)

    kind.plan_hook = fail
    refused = Rule(ErrorResponse(403, "Forbidden", "no"), verbs=frozenset({"create"}))
    widgets.start(kind=kind, rules=[refused])
    await widgets.create(size=0)
    await widgets.settle(80)
    assert any(abs(when - deadline) < 0.1 for when in times), times
