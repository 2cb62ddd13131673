"""A whole operator with a toy kind, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

import controller
from controller.apimachinery.conditions import rfc3339
from controller.kube.resources import CONFIG_MAPS, PODS, Resource
from controller.kube.transport import MERGE_PATCH
from controller.runtime.election import AlwaysLeader
from controller.runtime.kind import CacheReader
from controller.runtime.operator import Operator
from controller.runtime.record import Owner
from controller.runtime.settings import Settings
from tests.runtime.widgets import (
    GADGETS,
    OPERATOR,
    WIDGETS,
    RunningOperator,
    Seen,
    WidgetKind,
    WidgetWorld,
)


async def test_an_object_that_cannot_be_read_is_told_of_and_costs_only_itself(widgets: WidgetWorld):
    registry = CollectorRegistry()
    widgets.start(registry=registry)
    await widgets.create("odd", size=1)
    await widgets.counted(1, "odd")
    path = WIDGETS.path("default", "odd")
    wrong = {"spec": {"size": "many"}}
    await widgets.user.request_json("PATCH", path, body=wrong, content_type=MERGE_PATCH)
    await widgets.create("good", size=2)
    await widgets.counted(2, "good")
    await widgets.settle(600)
    events = await widgets.user.request_json("GET", "/apis/events.k8s.io/v1/events")
    told = [e for e in events["items"] if e["reason"] == "Unreadable"]
    assert [e["regarding"]["name"] for e in told] == ["odd"]
    assert "`int`" in told[0]["note"], "it says what is wrong"
    assert told[0]["regarding"]["uid"]
    assert widgets.children == 3, "the last good state is worked with"
    assert registry.get_sample_value("manta_events_sent_total") >= 4
    assert registry.get_sample_value("manta_events_dropped_total", {"cause": "spam"}) == 0


def an_operator(widgets: WidgetWorld, *kinds: WidgetKind, **settings: str) -> Operator:
    return Operator(
        widgets.user,
        kinds,
        Settings(**settings),
        clock=widgets.loop,
        wall=widgets.wall,
        rng=random.Random(0),
        registry=CollectorRegistry(),
    )


async def test_an_operator_works_where_and_under_the_name_that_its_settings_say(
    widgets: WidgetWorld,
):
    settings = Settings(
        identity="pod-1", namespaces=("default",), metrics_address="", health_address=""
    )
    running = widgets.start(settings=settings)
    await widgets.create(size=1)
    body = {"apiVersion": "test.dev/v1", "kind": "Widget", "metadata": {"name": "elsewhere"}}
    await widgets.user.create(WIDGETS, "kube-system", body)
    await widgets.counted(1)
    await widgets.settle(60)
    assert {each.widget.metadata.namespace for each in running.kind.seen} == {"default"}
    events = await widgets.user.request_json("GET", "/apis/events.k8s.io/v1/events")
    assert {each["reportingInstance"] for each in events["items"]} == {"pod-1"}


async def test_kinds_of_one_name_or_one_resource_are_refused(widgets: WidgetWorld):
    with pytest.raises(ValueError, match=r"^two kinds have the same name$"):
        an_operator(widgets, WidgetKind(), WidgetKind())
    other = WidgetKind()
    other.name = "others"
    with pytest.raises(ValueError, match=r"^two kinds have the same primary resource$"):
        an_operator(widgets, WidgetKind(), other)


@pytest.mark.parametrize(
    ("health", "metrics", "served"),
    [
        (":1", ":2", [(1, True, False), (2, False, True)]),
        (":1", ":1", [(1, True, True)]),
        (":1", "", [(1, True, False)]),
        ("", ":2", [(2, False, True)]),
        ("", "", []),
    ],
)
async def test_addresses_that_are_equal_share_a_server(
    widgets: WidgetWorld, health: str, metrics: str, served: list[tuple[int, bool, bool]]
):
    operator = an_operator(widgets, health_address=health, metrics_address=metrics)
    found = [(s.port, s._health is not None, s._registry is not None) for s in operator._servers()]
    assert found == served


async def test_after_a_jump_of_the_clock_all_objects_are_planned_anew(widgets: WidgetWorld):
    ahead = timedelta()
    running = widgets.run_operator(
        WidgetKind(), agent=OPERATOR, rng=random.Random(0), wall=lambda: widgets.wall() + ahead
    )
    reader = running.operator.expectations.reader
    await widgets.create(size=1)
    await widgets.counted(1)
    await widgets.settle(60)
    seen, steady_since = len(running.kind.seen), reader.clock_steady_since
    assert (reader.clock_jumped_at, steady_since is not None) == (None, True)
    ahead = timedelta(hours=1)
    with capture_logs() as logs:
        await widgets.settle(60)
    assert [each["seconds"] for each in logs if each["event"] == "clock.jumped"] == [3600.0]
    assert len(running.kind.seen) > seen
    assert reader.clock_jumped_at == reader.clock_steady_since > steady_since


@dataclass
class GadgetKind(WidgetKind):
    """Only notes that it is asked."""

    def observe(self, key: str, reads: CacheReader) -> Seen | None:
        if reads.get(GADGETS, key) is not None:
            self.seen.append(None)  # type: ignore[arg-type]


async def two_kinds(widgets: WidgetWorld) -> tuple[RunningOperator, WidgetKind]:
    """An operator of two kinds with an object of each, and the second kind."""
    gadgets = GadgetKind(name="gadget-controller", primary=GADGETS, child=PODS)
    running = widgets.start(also=[gadgets])
    await widgets.create(size=1)
    body = {"apiVersion": "test.dev/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    await widgets.user.create(GADGETS, "default", body)
    await widgets.counted(1)
    await widgets.settle(600)
    return running, gadgets


async def test_a_write_that_is_settled_wakes_its_owner_at_its_own_controller(widgets: WidgetWorld):
    running, gadgets = await two_kinds(widgets)
    seen, others = len(running.kind.seen), len(gadgets.seen)
    owner = Owner((await widgets.widget()).metadata.uid, "default/f", running.kind.name)
    assert running.operator.expectations.enqueue is not None
    running.operator.expectations.enqueue(owner)
    await widgets.settle(1)
    assert (len(running.kind.seen), len(gadgets.seen)) == (seen + 1, others)


@pytest.mark.parametrize(
    ("resource", "planned"), [(WIDGETS, (1, 0)), (PODS, (1, 1)), (CONFIG_MAPS, (0, 0))], ids=str
)
async def test_a_changed_schema_plans_all_objects_anew_that_it_concerns(
    widgets: WidgetWorld, resource: Resource[Any], planned: tuple[int, int]
):
    running, others = await two_kinds(widgets)
    before = len(running.kind.seen), len(others.seen)
    running.operator._schema_changed(resource)
    await widgets.settle(1)
    after = len(running.kind.seen), len(others.seen)
    assert (after[0] - before[0], after[1] - before[1]) == planned


async def test_an_edit_whose_schema_is_known_is_planned_for(widgets: WidgetWorld):
    running, others = await two_kinds(widgets)
    before = len(running.kind.seen), len(others.seen)
    running.operator._verified(WIDGETS, ["default/f"])
    await widgets.settle(1)
    assert (len(running.kind.seen), len(others.seen)) == (before[0] + 1, before[1])


@dataclass
class CarefulKind(WidgetKind):
    """Notes whether it is known by which definition its object was read."""

    verified: list[bool] = field(default_factory=list[bool])

    def observe(self, key: str, reads: CacheReader) -> Seen | None:
        self.verified.append(reads.is_verified(WIDGETS, key))
        return super().observe(key, reads)


async def test_an_edit_is_planned_for_again_once_its_definition_is_known(widgets: WidgetWorld):
    running = widgets.start(kind=CarefulKind())
    await widgets.create(size=1)
    await widgets.counted(1)
    await widgets.settle(600)
    running.kind.verified.clear()
    await widgets.resize(2)
    await widgets.settle(60)
    assert (running.kind.verified[0], running.kind.verified[-1]) == (False, True)


class Broken:
    name = "broken"

    async def run(self, ready: Callable[[], None]) -> None:
        ready()
        raise KeyError("a")

    def stop(self) -> None:
        pass


class Follower(AlwaysLeader):
    async def acquire(self) -> None:
        await asyncio.Event().wait()


class Lapsing(AlwaysLeader):
    """The election of a process that finds out late that it no longer leads."""

    leads = True

    def is_leader(self) -> bool:
        return self.leads


async def test_who_no_longer_leads_writes_nothing_and_sends_no_event(widgets: WidgetWorld):
    election = Lapsing()
    widgets.start(election=election)
    for name in ("f", "odd"):
        await widgets.create(name, size=1)
        await widgets.counted(1, name)
    await widgets.settle(60)
    election.leads = False
    sent = widgets.requests("create", "patch", "update", "delete")
    await widgets.resize(3)
    wrong = {"spec": {"size": "many"}}
    path = WIDGETS.path("default", "odd")
    await widgets.user.request_json("PATCH", path, body=wrong, content_type=MERGE_PATCH)
    await widgets.settle(60)
    assert widgets.requests("create", "patch", "update", "delete") == sent


async def test_another_writer_runs_only_while_the_process_leads(widgets: WidgetWorld):
    running = widgets.start(election=Follower())
    running.operator.add_writer(Broken())
    await widgets.settle(60)
    assert running.running


async def test_an_error_that_nobody_expected_is_logged_with_its_traceback(widgets: WidgetWorld):
    running = widgets.start()
    running.operator.add_writer(Broken())
    with capture_logs() as logs:
        assert await running.task == 1
    [failed] = [each for each in logs if each["event"] == "operator.failed"]
    assert (failed["error"], type(failed["exc_info"])) == ("'a'", KeyError)


async def test_the_debug_page_shows_what_the_parts_are_doing(widgets: WidgetWorld):
    running = widgets.start()
    await widgets.create(size=1)
    await widgets.counted(1)
    page = running.operator.debug.read()
    assert (page.version, page.time) == (controller.__version__, rfc3339(widgets.wall()))
    assert page.unreadable == {}
    assert page.controllers is not None
    assert [each.name for each in page.controllers.items] == ["widget-controller"]
    assert page.informers is not None
    assert page.informers.total == 2
    assert None not in (page.event_loop, page.expectations, page.tasks)
    assert page.log_level in {"debug", "info", "warning", "error"}
