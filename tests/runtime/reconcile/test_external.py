"""What a controller tells the other system that its kind deals with, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from controller.kube.resources import CONFIG_MAPS
from controller.runtime.plan import Lookup, MergePatch, Plan, Target
from controller.testing.faults import DelayedResponse, ErrorResponse, LostResponse, Rule
from tests.runtime.widgets import WIDGETS, Seen, WidgetKind, WidgetWorld

KEY = "default/f"


@dataclass
class Weather:
    """An outside that notes what it is told, and raises if the test says so."""

    told: list[tuple[str, str, tuple[Any, ...]]] = field(default_factory=list)
    enqueue: Callable[[str], None] = lambda _key: None
    broken: Callable[[str, str], bool] = lambda _verb, _key: False
    closed: bool = False

    def start(self, enqueue: Callable[[str], None]) -> None:
        assert not self.told
        self.enqueue = enqueue

    def sync(self, key: str, interests: tuple[Any, ...]) -> None:
        self._record("sync", key, interests)

    def submit(self, key: str, commands: tuple[Any, ...]) -> None:
        self._record("submit", key, commands)

    async def aclose(self) -> None:
        self.closed = True

    def of(self, verb: str, key: str = KEY) -> list[tuple[Any, ...]]:
        return [said for told, about, said in self.told if (told, about) == (verb, key)]

    def _record(self, verb: str, key: str, said: tuple[Any, ...]) -> None:
        assert not self.closed
        self.told.append((verb, key, said))
        if self.broken(verb, key):
            raise RuntimeError("storm")


def commit(seen: Seen, **data: str) -> MergePatch:
    meta = seen.widget.metadata
    target = Target(WIDGETS, meta.namespace, meta.name, "status")
    return MergePatch(
        target,
        meta.uid,
        {"status": data},
        subresource="status",
        resource_version=meta.resource_version,
    )


def kind_of(weather: Weather, plan: Callable[[Seen], Plan]) -> WidgetKind:
    return WidgetKind(external_source=weather, plan_hook=plan)


async def test_interests_are_synced_after_every_plan_and_commands_follow(widgets: WidgetWorld):
    weather = Weather()
    widgets.start(
        kind=kind_of(weather, lambda _seen: Plan(subscriptions=("wind",), commands=("blow",)))
    )
    await widgets.create(size=0)
    await widgets.eventually(lambda: weather.of("submit"))
    assert weather.told[:2] == [("sync", KEY, ("wind",)), ("submit", KEY, ("blow",))]


async def test_a_plan_with_lookups_syncs_its_interests_and_hands_nothing_over(
    widgets: WidgetWorld,
):
    weather = Weather()
    lookup = Lookup(Target(CONFIG_MAPS, "default", "nobody"))

    def plan(_seen: Seen) -> Plan:
        lookups = () if len(weather.of("sync")) else (lookup,)
        return Plan(lookups=lookups, subscriptions=("wind",), commands=("blow",))

    widgets.start(kind=kind_of(weather, plan))
    await widgets.create(size=0)
    await widgets.eventually(lambda: weather.of("submit"))
    assert [verb for verb, _, _ in weather.told[:3]] == ["sync", "sync", "submit"]


async def test_commands_are_handed_over_once_their_commit_is_stored(widgets: WidgetWorld):
    weather = Weather()
    stored: list[Any] = []
    handed = weather.submit

    def submit(key: str, commands: tuple[Any, ...]) -> None:
        entry = widgets.server.store.table("widgets.test.dev").items[key]
        stored.append(entry.object["status"])
        handed(key, commands)

    weather.submit = submit  # pyright: ignore[reportAttributeAccessIssue]

    def plan(seen: Seen) -> Plan:
        return Plan(commit=commit(seen, song="first"), subscriptions=("wind",), commands=("blow",))

    widgets.start(kind=kind_of(weather, plan))
    await widgets.create(size=0)
    await widgets.eventually(lambda: weather.of("submit"))
    assert stored[0] == {"song": "first"}


async def test_no_command_is_handed_over_when_the_commit_met_another_state(widgets: WidgetWorld):
    weather = Weather()

    def plan(seen: Seen) -> Plan:
        outdated = replace(commit(seen, song="first"), resource_version="1")
        return Plan(commit=outdated, subscriptions=("wind",), commands=("blow",))

    widgets.start(kind=kind_of(weather, plan))
    await widgets.create(size=0)
    await widgets.settle(5)
    assert ("wind",) in weather.of("sync")
    assert weather.of("submit") == []


@pytest.mark.parametrize("fault", [ErrorResponse(403), LostResponse()])
async def test_no_command_is_handed_over_until_a_commit_is_confirmed(
    widgets: WidgetWorld, fault: ErrorResponse | LostResponse
):
    weather = Weather()

    def plan(seen: Seen) -> Plan:
        return Plan(commit=commit(seen, song="first"), subscriptions=("wind",), commands=("blow",))

    rule = Rule(fault, "widgets.test.dev", frozenset({"patch"}))
    operator = widgets.start(kind=kind_of(weather, plan), rules=[rule])
    await widgets.create(size=0)
    await widgets.settle(20)
    assert ("wind",) in weather.of("sync")
    assert weather.of("submit") == []
    operator.transport.rules = []
    await widgets.resize(1)
    await widgets.eventually(lambda: weather.of("submit"))


async def test_an_object_that_is_gone_has_no_interests_any_more(widgets: WidgetWorld):
    weather = Weather()
    widgets.start(kind=kind_of(weather, lambda _seen: Plan(subscriptions=("wind",))))
    await widgets.create(size=0)
    await widgets.eventually(lambda: weather.of("sync"))
    await widgets.user.delete(WIDGETS, "default", "f")
    await widgets.settle(1)
    assert weather.of("sync")[-1] == ()


async def test_a_namesake_does_not_inherit_interests(widgets: WidgetWorld):
    weather = Weather()
    slow = Rule(DelayedResponse(3.0), "configmaps", frozenset({"create"}))
    kind = WidgetKind(external_source=weather)

    def plan(seen: Seen) -> Plan:
        stages = ((kind.create(seen.widget, "a"),),) if not seen.children else ()
        return Plan(subscriptions=(seen.widget.metadata.uid,), stages=stages)

    kind.plan_hook = plan
    widgets.start(kind=kind, rules=[slow])
    first = await widgets.create(size=0)
    await widgets.eventually(lambda: weather.of("sync"))
    await widgets.user.delete(WIDGETS, "default", "f")  # while the worker waits for its create
    second = await widgets.create(size=0)
    await widgets.settle(10)
    told = weather.of("sync")
    assert told[:3] == [(first.metadata.uid,), (), (second.metadata.uid,)]


async def test_whoever_stands_outside_can_wake_a_key(widgets: WidgetWorld):
    weather = Weather()
    widgets.start(kind=kind_of(weather, lambda _seen: Plan()))
    await widgets.create(size=0)
    await widgets.eventually(lambda: weather.of("sync"))
    await widgets.settle(1)
    before = len(weather.of("sync"))
    weather.enqueue(KEY)
    await widgets.settle(1)
    assert len(weather.of("sync")) == before + 1


async def test_the_outside_is_closed_after_the_last_worker(widgets: WidgetWorld):
    weather = Weather()
    kind = WidgetKind(external_source=weather)
    kind.plan_hook = lambda seen: Plan(stages=((kind.create(seen.widget, "a"),),))
    slow = Rule(DelayedResponse(3.0), "configmaps", frozenset({"create"}))
    operator = widgets.start(kind=kind, rules=[slow])
    await widgets.create(size=0)
    await widgets.eventually(lambda: weather.of("sync"))
    stopping = asyncio.create_task(operator.stop())
    await widgets.settle(1)
    assert not weather.closed
    assert await stopping == 0
    assert weather.closed
    assert len(widgets.created) == 1


async def test_the_outside_is_closed_when_the_operator_is_killed(widgets: WidgetWorld):
    weather = Weather()
    operator = widgets.start(kind=kind_of(weather, lambda _seen: Plan()))
    await widgets.create(size=0)
    await widgets.eventually(lambda: weather.of("sync"))
    await operator.kill()
    assert weather.closed


@pytest.mark.parametrize("verb", ["sync", "submit"])
async def test_an_outside_that_raises_costs_only_the_key_that_it_raised_for(
    widgets: WidgetWorld, verb: str
):
    weather = Weather()
    weather.broken = lambda told, key: (told, key) == (verb, KEY) and len(weather.of(verb)) < 3
    widgets.start(
        kind=kind_of(weather, lambda _: Plan(subscriptions=("wind",), commands=("blow",)))
    )
    await widgets.create("f", size=0)
    await widgets.create("g", size=0)
    await widgets.settle(5)
    assert weather.of("submit", "default/g")
    assert len(weather.of(verb)) >= 3, "it is tried again"
    assert "storm" in str((await widgets.widget()).status.conditions)
