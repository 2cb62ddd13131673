"""Crash at every write of a deletion with state in Redis, lose every answer: it ends all the same.

The scenario is a ready cluster, deleted while every Pod and Job watch event is two seconds late.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from msgspec import Struct

from controller.kube.resources import JOBS
from controller.testing.faults import Lag, Rule
from devcluster.apiserver.store import StoredEvent
from tests.integration.harness import RunningOperator, World, embedded_world, role
from tests.integration.sweeps import Disturbance, Kill, Sweep, at_each_fault, at_each_kill
from tests.integration.test_deletion import FINALIZER, cleaners, delete, heads, ready_cluster

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only, pytest.mark.timeout(300)]

LAG_SECONDS = 2.0


class Counts(Struct, frozen=True):
    """What is the same whatever happens."""

    heads_when_cleaning: int
    jobs_run: int
    jobs_left: int
    pods_left: int
    seconds_over: bool


EXPECTED = Counts(0, 1, 0, 0, seconds_over=False)


def lag() -> list[Rule]:
    return [Rule(Lag(LAG_SECONDS), resource=name) for name in ("pods", "jobs.batch")]


@asynccontextmanager
async def one_cluster() -> AsyncIterator[tuple[World, RunningOperator]]:
    async with embedded_world() as world:
        operator = world.start_operator(rules=lag())
        await ready_cluster(world)
        await world.settle(3 * LAG_SECONDS)
        yield world, operator


async def delete_it(world: World) -> Counts:
    assert world.server is not None
    most = 0

    def watch(event: StoredEvent) -> None:
        nonlocal most
        del event
        if cleaners(world):
            most = max(most, len(heads(world)))

    world.server.on_write.append(watch)
    began = world.loop.time()
    await delete(world)
    await world.eventually(world.is_gone, seconds=400, pause=0.5)
    took = world.loop.time() - began
    await world.settle(30)
    jobs = (await world.user.list(JOBS, world.namespace)).items
    left = [pod for pod in world.journal.present.values() if role(pod)]
    return Counts(most, len(cleaners(world)), len(jobs), len(left), seconds_over=took > 120)


@at_each_fault
async def test_disturbed_at_any_single_write_the_cleanup_runs_once_and_nothing_is_left(
    fault: Disturbance,
):
    sweep = Sweep[Counts]()
    async with one_cluster() as (world, operator):
        sweep.disturb(fault, world, operator, again=partial(world.start_operator, rules=lag()))
        await sweep.comes_to(EXPECTED, delete_it(world), more_than=5)


@at_each_kill
async def test_killed_at_any_write_of_the_creation_no_pod_is_made_before_the_finalizer(
    fault: Kill,
):
    """Behaviour 18: what has no finalizer has no pod that could write to Redis."""
    sweep = Sweep[bool]()
    async with embedded_world() as world:
        assert world.server is not None
        stored: list[StoredEvent] = []
        world.server.on_write.append(stored.append)

        async def created() -> bool:
            await ready_cluster(world)
            order = [event.table for event in stored if event.table == "pods" or is_held(event)]
            return order[0] == "rayclusters.ray.io" and order.count("pods") >= 3

        start = partial(world.start_operator, rules=lag())
        sweep.disturb(fault, world, start(), again=start)
        await sweep.comes_to(True, created(), more_than=7)


def is_held(event: StoredEvent) -> bool:
    return FINALIZER in event.current.object["metadata"].get("finalizers", ())
