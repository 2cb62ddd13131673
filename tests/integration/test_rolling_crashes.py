"""Crash at every write of a rolling update, lose every answer: each pod is replaced exactly once.

Every Pod watch event is ten seconds late, and a referee checks the budget after every transition of
the store. A sweep plays the scenario once; at each write a forked process goes on with a fault
there. The faults of all writes also happen in one and the same life.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest

from controller.kube.resources import CONTROLLER_REVISIONS
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import Lag, LostResponse, Rule
from controller.testing.journal import WRITES, JournalEntry
from tests.integration.definitions import drop_fields
from tests.integration.harness import RunningOperator, embedded_world
from tests.integration.rolling import RollingWorld, rolling_manifest
from tests.integration.sweeps import (
    SHARDS,
    Disturbance,
    Kill,
    Sweep,
    at_each_fault,
    at_each_kill,
    in_shards,
)
from tests.integration.test_crashes import LAG_SECONDS, lag
from tests.ray.dashboard.simulated import Fault

pytestmark = [
    pytest.mark.slow,
    pytest.mark.embedded_only,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("silence"),
]

LATE = (RAYCLUSTERS, CONTROLLER_REVISIONS)
FEW, MANY = (2, 1), (12, 8)


class Outcome(NamedTuple):
    created: int
    kept: int
    present: int
    wrong: tuple[str, ...] = ()


def expected(groups: tuple[int, ...]) -> Outcome:
    """Each worker is replaced once."""
    return Outcome(created=sum(groups), kept=0, present=sum(groups))


@asynccontextmanager
async def a_cluster(
    *groups: int, late: Iterable[Rule] = (), **options: Any
) -> AsyncIterator[tuple[RollingWorld, RunningOperator]]:
    """A ready cluster whose operator sees its pods ten seconds late, and others by these rules."""
    surge = max(1, max(groups) // 4)
    async with embedded_world() as world:
        settings: dict[str, Any] = {"maxSurge": surge, "maxParallelGroups": 2, **options}
        rolling = RollingWorld(world, rolling_manifest(*groups, **settings))
        operator = rolling.start_operator(rules=[lag(), *late])
        await rolling.create()
        await world.settle(60)
        yield rolling, operator


async def play(rolling: RollingWorld, *, head: bool = False) -> Outcome:
    world = rolling.world
    before = {pod.metadata.uid for pod in rolling.workers()}
    await rolling.edit("new", head=head)
    await rolling.completes(7200)
    await world.settle(60)
    after = {pod.metadata.uid for pod in rolling.workers()}
    made = world.journal.workers_created() - len(before)
    return Outcome(made, len(before & after), len(after), tuple(rolling.referee.wrong))


def kill_after_every_write(rolling: RollingWorld, operator: RunningOperator) -> list[JournalEntry]:
    """Kill the operator at the answer to its first write, and so each that follows it.

    Returns:
        The last write of each operator; it grows.
    """
    last: list[JournalEntry] = []

    def watch_over(mortal: RunningOperator) -> None:
        async def succeed() -> None:
            await mortal.kill()
            watch_over(rolling.start_operator(rules=[lag()]))

        def strike(entry: JournalEntry) -> None:
            if entry.attributes.writes and mortal not in dead:
                dead.add(mortal)
                last.append(entry)
                mortal.transport.sever()
                rolling.world.background(succeed())

        mortal.transport.on_answer.append(strike)

    dead: set[RunningOperator] = set()
    watch_over(operator)
    return last


async def test_with_all_watches_late_each_worker_is_replaced_once() -> None:
    late = [Rule(Lag(LAG_SECONDS), resource=str(each)) for each in LATE]
    async with a_cluster(*FEW, late=late) as (rolling, _):
        assert await play(rolling) == expected(FEW)


@pytest.mark.parametrize(("groups", "more_than"), [(FEW, SHARDS), (MANY, 5 * sum(MANY))], ids=str)
@at_each_fault
@in_shards
async def test_disturbed_at_any_single_write_each_worker_is_replaced_once(
    fault: Disturbance, groups: tuple[int, ...], more_than: int, shard: int
) -> None:
    sweep = Sweep[Outcome](shard, SHARDS)
    async with a_cluster(*groups) as (rolling, operator):
        again = partial(rolling.start_operator, rules=[lag()])
        sweep.disturb(fault, rolling.world, operator, again=again)
        await sweep.comes_to(expected(groups), play(rolling), more_than=more_than)


@in_shards
async def test_with_any_single_answer_of_ray_lost_each_worker_is_replaced_once(
    shard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Sweep[Outcome](shard, SHARDS)
    async with a_cluster(*FEW) as (rolling, _):
        ray = rolling.rays.ray

        def strike(_: object) -> Fault | None:
            return Fault.LOSES_ANSWERS if sweep.strikes() else None

        monkeypatch.setattr(ray, "_fault_of", strike)
        await sweep.comes_to(expected(FEW), play(rolling), more_than=SHARDS)


async def test_twenty_workers_survive_an_operator_killed_after_every_write_of_one_life() -> None:
    """Each operator makes a single write, and the next one goes on from there."""
    async with a_cluster(*MANY) as (rolling, operator):
        killed = kill_after_every_write(rolling, operator)
        assert await play(rolling) == expected(MANY)
    assert len(killed) > 3 * sum(MANY)


@pytest.mark.parametrize(("definition", "drain"), [("ours", 0), ("kuberays", 300)])
async def test_groups_never_lack_workers_at_once_although_each_operator_makes_one_write(
    definition: str, drain: int
) -> None:
    in_place: dict[str, Any] = {"maxSurge": 0, "maxUnavailable": 1, "maxParallelGroups": 1}
    async with a_cluster(1, 1, **in_place, drainTimeoutSeconds=drain) as (rolling, operator):
        if definition == "kuberays":
            await drop_fields(rolling.world, "status.upgrade")
            await rolling.use_the_annotation()
        killed = kill_after_every_write(rolling, operator)
        spec = (await rolling.world.cluster()).spec
        for group in spec["workerGroupSpecs"]:
            annotations = {"sim.manta.dev/ready-delay": "60"}
            group["template"]["metadata"] = {"annotations": annotations}
        await rolling.patch(spec)
        await rolling.completes(7200)
    assert rolling.referee.most_lacking == 1
    assert len(killed) > 3


async def test_twenty_workers_are_replaced_once_if_no_answer_to_a_write_ever_arrives() -> None:
    async with a_cluster(*MANY) as (rolling, operator):
        operator.transport.rules.append(Rule(LostResponse(), verbs=WRITES))
        assert await play(rolling) == expected(MANY)


@at_each_kill
@in_shards
async def test_killed_at_any_single_write_whole_replicas_and_the_head_are_replaced(
    fault: Kill, shard: int
) -> None:
    """A replica whose hosts were being created is given up: its pods are made once more."""
    wanted = Outcome(created=0, kept=0, present=4)
    sweep = Sweep[Outcome](shard, SHARDS)
    async with a_cluster(2, hosts=2, fault_tolerant=True) as (rolling, operator):
        (head,) = rolling.rays.heads()
        again = partial(rolling.start_operator, rules=[lag()])
        sweep.disturb(fault, rolling.world, operator, again=again)

        async def scenario() -> Outcome:
            outcome = await play(rolling, head=True)
            assert head.metadata.uid in rolling.world.journal.marked
            assert rolling.world.journal.most_live_heads == 1
            return outcome._replace(created=0)

        await sweep.comes_to(wanted, scenario())
