"""Crash at every write of a deletion with state in Redis, lose every answer: it ends all the same.

The scenario is a ready cluster, deleted while every Pod and Job watch event is two seconds late.
It is played once to count its writes, then once for each of them with a fault in that very place.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from controller.kube.resources import JOBS
from tests.faults.faulty_transport import Lag, LostRequest, LostResponse, Rule
from tests.integration.harness import embedded_world, role
from tests.integration.measuring import measured_once
from tests.integration.test_crashes import kill_at
from tests.integration.test_deletion import FINALIZER, cleaners, delete, heads, ready_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from controller.devcluster.apiserver.store import StoredEvent
    from tests.integration.harness import RunningOperator, World

pytestmark = [pytest.mark.embedded_only, pytest.mark.timeout(300)]

LAG_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Counts:
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


@measured_once
async def writes_of_deletion() -> int:
    async with one_cluster() as (world, operator):
        before = len(operator.transport.journal.writes)
        assert await delete_it(world) == EXPECTED
        return len(operator.transport.journal.writes) - before


@pytest.mark.slow
@pytest.mark.parametrize("applied", [False, True], ids=["request-lost", "request-applied"])
async def test_killed_at_any_single_write_the_cleanup_runs_once_and_nothing_is_left(applied: bool):
    writes = await writes_of_deletion()
    assert writes >= 6, "three pods, the Job, the finalizer, the status"
    wrong: dict[int, Counts] = {}
    for number in range(writes):
        async with one_cluster() as (world, operator):
            killed = kill_at(world, operator, number, applied=applied)
            counts = await delete_it(world)
            if counts != EXPECTED:
                wrong[number] = counts
            assert killed() or number >= writes - 3, f"write {number} was never made"
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("fault", [LostResponse(), LostRequest()], ids=["answer", "request"])
async def test_with_any_single_answer_lost_the_cleanup_runs_once_and_nothing_is_left(
    fault: LostResponse | LostRequest,
):
    wrong: dict[int, Counts] = {}
    for number in range(await writes_of_deletion()):
        async with one_cluster() as (world, operator):
            verbs = frozenset({"create", "patch", "update", "delete"})
            operator.transport.rules.append(Rule(fault, verbs=verbs, skip=number, times=1))
            counts = await delete_it(world)
            if counts != EXPECTED:
                wrong[number] = counts
    assert wrong == {}


@pytest.mark.slow
async def test_killed_at_any_write_of_the_creation_no_pod_is_made_before_the_finalizer():
    """Behaviour 18: what has no finalizer has no pod that could write to Redis."""
    for number in range(8):
        async with embedded_world() as world:
            assert world.server is not None
            stored: list[StoredEvent] = []
            world.server.on_write.append(stored.append)
            operator = world.start_operator(rules=lag())
            kill_at(world, operator, number, applied=bool(number % 2))
            await ready_cluster(world)
            order = [event.table for event in stored if event.table == "pods" or is_held(event)]
            assert order[0] == "rayclusters.ray.io"
            assert order.count("pods") >= 3


def is_held(event: StoredEvent) -> bool:
    return FINALIZER in event.current.object["metadata"].get("finalizers", ())
