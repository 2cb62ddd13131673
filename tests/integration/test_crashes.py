"""Crash at every write, lose every answer, expire every watch: the numbers stay the same.

The scenario is one cluster scaled 1 -> 10 and, once the API server holds ten workers, 10 -> 3, with
every Pod watch event ten seconds late.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from msgspec import Struct

from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import Gone, Lag, Rule
from tests.integration.forks import InEachFork
from tests.integration.harness import RunningOperator, World, embedded_world, example_cluster
from tests.integration.sweeps import (
    SHARDS,
    Disturbance,
    Kill,
    Sweep,
    at_each_fault,
    at_each_kill,
    in_shards,
)

pytestmark = [
    pytest.mark.embedded_only,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("silence"),
]

LAG_SECONDS = 10.0


def lag() -> Rule:
    return Rule(Lag(LAG_SECONDS), resource="pods")


class Counts(Struct, frozen=True):
    created: int
    deleted: int
    most_live_heads: int


EXPECTED = Counts(created=10, deleted=7, most_live_heads=1)


@asynccontextmanager
async def one_worker() -> AsyncIterator[tuple[World, RunningOperator]]:
    """A ready cluster with one worker, its operator lagging."""
    async with embedded_world() as world:
        operator = world.start_operator(rules=[lag()])
        await world.create_cluster(replicas=1)
        await world.eventually(world.is_ready, seconds=120, pause=1)
        await world.settle(2 * LAG_SECONDS)
        yield world, operator


async def scale_up_and_down(world: World) -> Counts:
    await world.scale(10)
    await world.eventually(lambda: len(world.journal.workers()) == 10, seconds=300)
    await world.scale(3)
    await world.eventually(lambda: len(world.journal.present) == 4, seconds=300)
    await world.settle(4 * LAG_SECONDS)
    journal = world.journal
    return Counts(journal.workers_created(), journal.workers_deleted(), journal.most_live_heads)


def again(world: World) -> Callable[[], RunningOperator]:
    return partial(world.start_operator, rules=[lag()])


@at_each_fault
@in_shards
async def test_disturbed_at_any_single_write_the_numbers_are_the_same(
    fault: Disturbance, shard: int
):
    sweep = Sweep[Counts](shard, SHARDS)
    async with one_worker() as (world, operator):
        sweep.disturb(fault, world, operator, again=again(world))
        await sweep.comes_to(EXPECTED, scale_up_and_down(world), more_than=16)


@pytest.mark.slow
@in_shards
async def test_with_a_410_in_place_of_any_single_watch_event_the_numbers_are_the_same(shard: int):
    sweep = Sweep[Counts](shard, SHARDS)
    async with one_worker() as (world, operator):
        operator.transport.rules.append(InEachFork(Gone(), strikes=sweep.strikes))
        await sweep.comes_to(EXPECTED, scale_up_and_down(world), more_than=50)


# -- crash at every write of a recreation and of a suspension: every pod is replaced exactly once --


WORKERS = 2


async def change(world: World, **spec: Any) -> None:
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", {"spec": spec})


async def is_suspended(world: World) -> bool:
    return (await world.condition("RayClusterSuspended"))["status"] == "True"


async def recreate(world: World) -> None:
    await change(world, rayVersion="2.53.0")


async def suspend_and_resume(world: World) -> None:
    await change(world, suspend=True)
    await world.eventually(lambda: is_suspended(world), seconds=600, pause=0.5)
    assert not world.journal.present, "nothing is left when it is said"
    await change(world, suspend=False)


async def play(upheaval: Any, world: World) -> list[str]:
    """What was wrong in the end, in words."""
    before = set(world.journal.created)
    await upheaval(world)
    await world.eventually(lambda: before <= world.journal.marked, seconds=600)
    await world.eventually(lambda: len(world.journal.present) == WORKERS + 1, seconds=600)
    await world.settle(60)
    journal = world.journal
    after = set(journal.created) - before
    facts = {
        f"{len(after)} pods were made": len(after) == WORKERS + 1,
        f"{len(journal.present)} pods are there": len(journal.present) == WORKERS + 1,
        f"{len(journal.marked)} pods were deleted": journal.marked == before,
        f"{journal.most_live_heads} heads at a time": journal.most_live_heads == 1,
    }
    return [words for words, right in facts.items() if not right]


@pytest.mark.slow
@pytest.mark.parametrize("upheaval", [recreate, suspend_and_resume])
@at_each_kill
@in_shards
async def test_killed_at_any_single_write_every_pod_is_replaced_once(
    upheaval: Any, fault: Kill, shard: int
):
    sweep = Sweep[list[str]](shard, SHARDS)
    async with embedded_world() as world:
        operator = world.start_operator(rules=[lag()])
        manifest = example_cluster(replicas=WORKERS)
        manifest["spec"]["upgradeStrategy"] = {"type": "Recreate"}
        await world.user.create(RAYCLUSTERS, world.namespace, manifest)
        await world.eventually(lambda: len(world.journal.ready_workers()) == WORKERS, seconds=120)
        await world.settle(30)
        sweep.disturb(fault, world, operator, again=again(world))
        await sweep.comes_to([], play(upheaval, world), more_than=2 * WORKERS)
