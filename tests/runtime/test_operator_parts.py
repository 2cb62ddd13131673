"""How an operator puts its parts together, and what it does between them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

import controller
from controller.apimachinery.conditions import rfc3339
from controller.kube.objects import ObjectMeta
from controller.kube.resources import CONFIG_MAPS, PODS, SERVICES
from controller.runtime import operator as module
from controller.runtime.errors import ManagerMisuse, StopTimeout
from controller.runtime.expectations.cache_barrier import CacheScope
from controller.runtime.expectations.owners import Owner
from controller.runtime.manager import Group
from controller.runtime.operator import Operator
from controller.runtime.plan import Event
from controller.runtime.settings import Settings
from informers import Undecodable
from informers.prometheus import InformerLabels
from tests.runtime.kit import NOW
from tests.runtime.widgets import GADGETS, WIDGETS

PARTS = (
    "AlwaysLeader",
    "Caches",
    "ClientCollector",
    "Controller",
    "DebugServer",
    "EventCollector",
    "Executor",
    "ExpectationCollector",
    "Expectations",
    "Health",
    "InformerCollector",
    "InstalledSchemas",
    "LookupReader",
    "Manager",
    "Monitor",
    "MonitoringServer",
    "ProcessCollector",
    "QueueCollector",
    "Recorder",
    "RuntimeMetrics",
    "TimeOfDay",
    "Writer",
)


class Part:
    """Whatever an operator is made of: knows what it was made with, and notes its calls."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.arguments = arguments
        self.options = options
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, *arguments, *([options] if options else [])))
            return f"{name} of {arguments}"

        self.__dict__[name] = call
        return call


class World:
    """An operator of two kinds whose parts are doubles; `made` has them by their class."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        election: Any = None,
        on_synced: Callable[[], None] | None = None,
        **settings: Any,
    ) -> None:
        self.made: dict[str, list[Any]] = {name: [] for name in PARTS}
        for name in PARTS:
            monkeypatch.setattr(module, name, self._maker(name))
        self.client, self.rng, self.registry, self.clock = (Part() for _ in range(4))
        self.kinds: Any = [
            SimpleNamespace(name="widgets", primary=WIDGETS),
            SimpleNamespace(name="gadgets", primary=GADGETS),
        ]
        self.settings = Settings(**settings)
        parts: Any = {"clock": self.clock, "rng": self.rng, "registry": self.registry}
        client: Any = self.client
        self.operator = Operator(
            client,
            self.kinds,
            self.settings,
            wall=self.wall,
            election=election,
            on_synced=on_synced,
            **parts,
        )

    def wall(self) -> datetime:
        return NOW

    def _maker(self, name: str) -> Any:
        def make(*arguments: Any, **options: Any) -> Part:
            part = Part(*arguments, **options)
            self.made[name].append(part)
            return part

        return make

    def one(self, name: str) -> Any:
        (part,) = self.made[name]
        return part

    def check(self, name: str, *arguments: Any, **options: Any) -> None:
        part = self.one(name)
        assert (part.arguments, part.options) == (arguments, options), name


async def test_every_part_gets_what_concerns_it(monkeypatch: pytest.MonkeyPatch):
    def synced() -> None:
        pass

    world = World(
        monkeypatch,
        on_synced=synced,
        identity="pod-1",
        namespaces=("a", "b"),
        workers=3,
        slow_reconciles=4,
        sync_timeout_seconds=5.0,
        reconcile_timeout_seconds=6.0,
        grace_seconds=7.0,
    )
    operator, clock, rng, registry = world.operator, world.clock, world.rng, world.registry
    leads, expectations = world.one("AlwaysLeader"), world.one("Expectations")
    writer, lookups, metrics = (world.one(n) for n in ("Writer", "LookupReader", "RuntimeMetrics"))
    time_of_day, recorder = world.one("TimeOfDay"), world.one("Recorder")
    world.check("RuntimeMetrics", registry, version=controller.__version__)
    world.check("TimeOfDay", world.wall, clock=clock, on_jump=operator._clock_jumped)
    world.check("Expectations", now=clock.time, wall=time_of_day)
    world.check("ExpectationCollector", expectations.statistics)
    world.check("ProcessCollector", registry=registry)
    world.check("QueueCollector", registry)
    world.check("Writer", world.client, expectations, fence=leads)
    world.check("LookupReader", world.client, expectations)
    world.check(
        "Recorder",
        world.client,
        instance="pod-1",
        clock=clock,
        wall=time_of_day,
        rng=rng,
        fence=leads,
    )
    assert [part.arguments for part in world.made["Executor"]] == [(writer, lookups)] * 2
    options = {"now": clock.time, "rng": rng}
    assert [part.options for part in world.made["Executor"]] == [options] * 2
    for kind, part, executor in zip(
        world.kinds, world.made["Controller"], world.made["Executor"], strict=True
    ):
        assert operator.controllers[kind.name] is part
        assert part.arguments == (kind,)
        assert part.options == {
            "expectations": expectations,
            "executor": executor,
            "recorder": recorder,
            "metrics": f"controller of {(kind.name, 3)}",
            "workers": 3,
            "slow_reconciles": 4,
            "clock": clock,
            "wall": time_of_day,
            "rng": rng,
            "queue_metrics": world.one("QueueCollector"),
            "timeout": 6.0,
            "on_edit": operator._edited,
        }
    assert metrics.calls == [("controller", "widgets", 3), ("controller", "gadgets", 3)]
    caches = world.one("Caches")
    of_informers, on_watch = caches.options.pop("metrics"), caches.options.pop("on_watch")
    world.check(
        "Caches",
        world.client,
        tuple(world.kinds),
        expectations=expectations,
        namespaces=("a", "b"),
        clock=clock,
        rng=rng,
        sync_timeout=5.0,
        on_synced=synced,
        on_quarantine=operator._quarantined,
        on_available=operator._available,
    )
    assert caches.calls == [
        ("serve", operator.controllers[kind.name], kind) for kind in world.kinds
    ]
    world.check("InformerCollector", registry, clock=clock)
    of_informers(CacheScope(WIDGETS, "default"))
    labels = InformerLabels("widgets.test.dev/default", "test.dev", "v1", "widgets")
    assert world.one("InformerCollector").calls == [("recorder", labels)]
    schemas = world.one("InstalledSchemas")
    world.check(
        "InstalledSchemas",
        world.client,
        {PODS, WIDGETS, GADGETS},
        on_change=operator._schema_changed,
        on_verified=operator._verified,
        reread=caches.reread,
    )
    on_watch(WIDGETS, "a")
    assert schemas.calls == [("watch_begins", WIDGETS, "a")]
    assert expectations.reader.installed_schemas == schemas.found
    assert expectations.reader.unverified == schemas.unverified
    assert expectations.enqueue == operator._enqueue
    world.check("Manager", clock=clock, grace=7.0, election=leads)
    world.check("Monitor", metrics, clock=clock, time_of_day=time_of_day)
    assert world.one("Health").calls == [
        ("add_readiness", "caches", caches.unready),
        ("add_readiness", "stopping", operator._stopping),
    ]
    collectors = [
        world.one(name) for name in ("ExpectationCollector", "ClientCollector", "EventCollector")
    ]
    assert registry.calls == [("register", each) for each in collectors]
    assert collectors[1].arguments[0]() is world.client
    recorder.statistics = "numbers"
    assert collectors[2].arguments[0]() == "numbers"


def test_an_election_decides_who_may_write(monkeypatch: pytest.MonkeyPatch):
    election = Part()
    world = World(monkeypatch, election=election)
    assert world.made["AlwaysLeader"] == []
    assert world.one("Writer").options["fence"] is election
    assert world.one("Recorder").options["fence"] is election
    assert world.one("Manager").options["election"] is election
    assert world.one("Recorder").options["instance"] == "manta-operator"


def test_kinds_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch):
    world = World(monkeypatch)
    parts: Any = {"clock": world.clock, "rng": world.rng, "registry": world.registry}
    client: Any = world.client
    with pytest.raises(ValueError, match=r"^two kinds have the same name$"):
        Operator(client, [*world.kinds, world.kinds[0]], Settings(), wall=world.wall, **parts)


def reconsidered(world: World) -> list[Any]:
    return [part.calls for part in world.made["Controller"]]


def all_keys(*resources: Any) -> list[Any]:
    return [[("reconsider", f"keys of {(each,)}")] if each else [] for each in resources]


def test_an_owner_is_woken_at_its_own_controller(monkeypatch: pytest.MonkeyPatch):
    world, owner = World(monkeypatch), Owner("uid", "default/f", "gadgets")
    world.operator._enqueue(owner)
    assert reconsidered(world) == [[], [("enqueue", "default/f")]]


@pytest.mark.parametrize(
    ("resource", "planned"),
    [(WIDGETS, (WIDGETS, None)), (PODS, (WIDGETS, GADGETS)), (CONFIG_MAPS, (None, None))],
)
def test_a_changed_schema_plans_all_objects_anew_that_it_concerns(
    monkeypatch: pytest.MonkeyPatch, resource: Any, planned: Any
):
    world = World(monkeypatch)
    for part, kind in zip(world.made["Controller"], world.kinds, strict=True):
        part.primary = kind.primary
    world.operator._schema_changed(resource)
    assert reconsidered(world) == all_keys(*planned)


@pytest.mark.parametrize(
    ("resource", "planned"),
    [(PODS, (WIDGETS, GADGETS)), (CONFIG_MAPS, (None, GADGETS)), (SERVICES, (None, None))],
)
def test_a_resource_that_appears_plans_all_objects_anew_whose_kind_owns_it(
    monkeypatch: pytest.MonkeyPatch, resource: Any, planned: Any
):
    world = World(monkeypatch)
    for kind, owned in zip(world.kinds, ([PODS], [PODS, CONFIG_MAPS]), strict=True):
        kind.owned = [SimpleNamespace(resource=each) for each in owned]
    world.operator._available(resource)
    assert reconsidered(world) == all_keys(*planned)


def test_an_edit_has_the_schema_read_and_is_then_planned_for(monkeypatch: pytest.MonkeyPatch):
    world = World(monkeypatch)
    for part, kind in zip(world.made["Controller"], world.kinds, strict=True):
        part.primary = kind.primary
    world.operator._edited(GADGETS, "default/f")
    assert world.one("InstalledSchemas").calls == [("edited", GADGETS, "default/f")]
    world.operator._verified(GADGETS, ["default/f", "default/g"])
    assert reconsidered(world) == [[], [("enqueue", "default/f"), ("enqueue", "default/g")]]


def test_after_a_jump_of_the_clock_all_objects_are_planned_anew(monkeypatch: pytest.MonkeyPatch):
    world = World(monkeypatch)
    for part, kind in zip(world.made["Controller"], world.kinds, strict=True):
        part.primary = kind.primary
    with capture_logs() as logs:
        world.operator._clock_jumped(3600.14, NOW)
    assert logs == [{"event": "clock.jumped", "log_level": "warning", "seconds": 3600.1}]
    reader = world.one("Expectations").reader
    assert (reader.clock_jumped_at, reader.clock_steady_since) == (NOW, NOW)
    assert reconsidered(world) == all_keys(WIDGETS, GADGETS)


def test_the_clock_is_steady_from_when_the_process_leads(monkeypatch: pytest.MonkeyPatch):
    world = World(monkeypatch)
    reader = world.one("Expectations").reader
    reader.clock_jumped_at = None
    world.operator._time_of_day = world.wall
    world.operator._begin_to_lead()
    assert (reader.clock_jumped_at, reader.clock_steady_since) == (None, NOW)


@pytest.mark.parametrize(("election", "since"), [(None, -math.inf), (Part(), "time of ()")])
def test_a_process_without_an_election_has_always_led_and_another_leads_from_now_on(
    monkeypatch: pytest.MonkeyPatch, election: Any, since: Any
):
    world = World(monkeypatch, election=election)
    world.operator._time_of_day = world.wall
    assert world.operator._begin_to_lead() == since


META = ObjectMeta(name="odd", namespace="default", uid="uid-odd")


@pytest.mark.parametrize(("key", "said"), [("default/odd", True), ("", False)])
def test_an_object_that_does_not_fit_its_type_is_logged_and_said_if_it_has_a_name(
    monkeypatch: pytest.MonkeyPatch, key: str, *, said: bool
):
    world = World(monkeypatch)
    odd = Undecodable(
        key=key,
        uid="uid-odd",
        revision="5",
        reason="$.spec.size: Expected `int`",
        removed=False,
        metadata=META,
    )
    with capture_logs() as logs:
        world.operator._quarantined(WIDGETS, odd)
    assert logs == [
        {
            "event": "object.unreadable",
            "log_level": "warning",
            "resource": "widgets.test.dev",
            "key": key,
            "reason": "$.spec.size: Expected `int`",
        }
    ]
    event = Event("Warning", "Unreadable", "Decode", "$.spec.size: Expected `int`")
    assert world.one("Recorder").calls == ([("record", WIDGETS, META, event)] if said else [])


def test_an_operator_that_is_stopping_is_not_ready(monkeypatch: pytest.MonkeyPatch):
    world = World(monkeypatch)
    world.one("Manager").stopping = False
    assert world.operator._stopping() is None
    world.one("Manager").stopping = True
    assert world.operator._stopping() == "the operator is stopping"


@pytest.mark.parametrize(
    ("health", "metrics", "servers"),
    [
        (":1", ":2", [(("", 1), "health"), (("", 2), "registry")]),
        (":1", ":1", [(("", 1), "health registry")]),
        (":1", "", [(("", 1), "health")]),
        ("", ":2", [(("", 2), "registry")]),
        ("", "", []),
    ],
)
def test_addresses_that_are_equal_share_a_server(
    monkeypatch: pytest.MonkeyPatch, health: str, metrics: str, servers: list[Any]
):
    world = World(monkeypatch, health_address=health, metrics_address=metrics)
    parts: dict[str, Any] = {"health": world.operator.health, "registry": world.registry}
    assert world.operator._servers() == world.made["MonitoringServer"]
    assert [(part.arguments, part.options) for part in world.made["MonitoringServer"]] == [
        ((address,), {name: parts[name] for name in served.split()}) for address, served in servers
    ]


async def run(world: World, *errors: Exception) -> tuple[int, list[Any]]:
    """Run an operator whose manager ends with these errors; the exit status and the log."""

    async def end(stop: asyncio.Event) -> None:
        assert stop is wanted
        if errors:
            raise ExceptionGroup("the operator did not end well", errors)

    wanted = asyncio.Event()
    world.one("Manager").run = end
    with capture_logs() as logs:
        return await world.operator.run(wanted), logs


async def test_all_parts_run_in_their_groups_and_once(monkeypatch: pytest.MonkeyPatch):
    world = World(monkeypatch, health_address=":1", metrics_address=":2")
    assert await run(world) == (0, [])
    added = [(group, part) for _, group, part in world.one("Manager").calls]
    recording, writers = added[3][1], added[6][1]
    assert added == [
        *((Group.HTTP, server) for server in world.made["MonitoringServer"]),
        (Group.CACHES, world.one("Caches")),
        (Group.ALWAYS, recording),
        (Group.ALWAYS, world.one("Monitor")),
        (Group.ALWAYS, world.one("InstalledSchemas")),
        (Group.ELECTED, writers),
    ]
    assert recording._recorder is world.one("Recorder")
    assert writers._caches is world.one("Caches")
    assert writers._controllers == world.made["Controller"]
    with pytest.raises(ManagerMisuse, match=r"^an operator runs once$"):
        await run(world)


async def test_each_error_is_logged_and_only_those_nobody_expected_with_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
):
    bug = KeyError("a")
    errors = StopTimeout("caches did not end in time"), ExceptionGroup("", [OSError("in use"), bug])
    status, logs = await run(World(monkeypatch), *errors)
    failed = {"event": "operator.failed", "log_level": "error"}
    assert status == 1
    assert logs == [
        {**failed, "error": "caches did not end in time", "exc_info": None},
        {**failed, "error": "in use", "exc_info": None},
        {**failed, "error": "'a'", "exc_info": bug},
    ]


async def test_the_debug_page_is_served_like_the_probes_where_it_has_a_port(
    monkeypatch: pytest.MonkeyPatch,
):
    world = World(monkeypatch, health_address="", metrics_address="", debug_port=5)
    await run(world)
    world.check("DebugServer", 5, world.operator.debug)
    assert world.one("Manager").calls[0] == ("add", Group.HTTP, world.one("DebugServer"))


def test_the_debug_page_shows_what_the_parts_say_when_it_is_read(monkeypatch: pytest.MonkeyPatch):
    sections = Part()
    monkeypatch.setattr(module, "sections", sections)
    monkeypatch.setattr(module, "current_level", lambda: "debug")
    world = World(monkeypatch)
    page = world.operator.debug._sections
    assert sections.calls == []
    found = {name: read() for name, read in page.items()}
    assert sections.calls.pop() == ("tasks",)
    assert found.keys() - {each for each, *_ in sections.calls} == {
        *("version", "time", "log_level", "tasks")
    }
    assert found["version"] == controller.__version__
    assert found["time"] == rfc3339(NOW)
    assert found["log_level"] == "debug"
    event_loop, (named, controllers), *others = sections.calls
    assert event_loop == ("event_loop", "lag of ()")
    assert (named, list(controllers)) == ("controllers", world.made["Controller"])
    assert others == [
        ("expectations", world.one("Expectations")),
        ("informers", world.one("Caches").caches, "time of ()"),
    ]


def test_another_writer_runs_only_while_the_process_leads(monkeypatch: pytest.MonkeyPatch):
    world = World(monkeypatch)
    writer: Any = Part()
    world.operator.add_writer(writer)
    assert world.one("Manager").calls == [("add", Group.ELECTED, writer)]
