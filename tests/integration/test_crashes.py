"""Crash at every write, lose every answer, expire every watch: the numbers stay the same.

The scenario is one cluster scaled 1 -> 10 and, once the API server holds ten workers, 10 -> 3, with
every Pod watch event ten seconds late. It is played once to count its writes and watch events, then
once for each of them with a fault in that very place. Nothing else differs: same seed, same times.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.faults.faulty_transport import Gone, Lag, LostRequest, LostResponse, Rule
from tests.integration.harness import embedded_world
from tests.integration.measuring import measured_once

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.faults.faulty_transport import JournalEntry
    from tests.integration.harness import RunningOperator, World

pytestmark = [
    pytest.mark.embedded_only,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("silence"),
]

LAG_SECONDS = 10.0

SHARDS = 8
in_shards = pytest.mark.parametrize(
    "shard",
    [0, *[pytest.param(number, marks=pytest.mark.slow) for number in range(1, SHARDS)]],
    ids=lambda number: f"shard{number}",
)
"""Each shard takes every eighth place; `make test` plays at most the first of them."""


def lag() -> Rule:
    return Rule(Lag(LAG_SECONDS), resource="pods")


@dataclass(frozen=True, slots=True)
class Counts:
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


@measured_once
async def writes_and_events() -> tuple[int, int]:
    """How many writes the scenario makes and how many watch events it sees, undisturbed."""
    async with one_worker() as (world, operator):
        journal = operator.transport.journal
        writes, events = len(journal.writes), len(journal.events)
        assert await scale_up_and_down(world) == EXPECTED
        return len(journal.writes) - writes, len(journal.events) - events


def kill_at(
    world: World, operator: RunningOperator, number: int, *, applied: bool
) -> Callable[[], bool]:
    """Kill the operator at its n-th write from now on and start another one."""
    seen = 0
    killed = False

    async def restart() -> None:
        await operator.kill()
        world.start_operator(rules=[lag()])

    def strike(entry: JournalEntry) -> None:
        nonlocal seen, killed
        if not entry.attributes.writes or killed:
            return
        seen += 1
        if seen > number:
            killed = True
            operator.transport.sever()
            world.background(restart())

    hooks = operator.transport.on_answer if applied else operator.transport.on_request
    hooks.append(strike)
    return lambda: killed


@pytest.mark.parametrize("applied", [False, True], ids=["request-lost", "request-applied"])
@in_shards
async def test_killed_at_any_single_write_the_numbers_are_the_same(applied: bool, shard: int):
    writes, _ = await writes_and_events()
    assert writes > 16
    wrong: dict[int, Counts] = {}
    for number in range(shard, writes, SHARDS):
        async with one_worker() as (world, operator):
            killed = kill_at(world, operator, number, applied=applied)
            counts = await scale_up_and_down(world)
            if counts != EXPECTED:
                wrong[number] = counts
            assert killed() or number >= writes - 3, f"write {number} was never made"
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("fault", [LostResponse(), LostRequest()], ids=["answer", "request"])
@in_shards
async def test_bug_02_with_any_single_answer_lost_the_numbers_are_the_same(
    fault: LostResponse | LostRequest, shard: int
):
    writes, _ = await writes_and_events()
    wrong: dict[int, Counts] = {}
    for number in range(shard, writes, SHARDS):
        async with one_worker() as (world, operator):
            verbs = frozenset({"create", "patch", "update", "delete"})
            operator.transport.rules.append(Rule(fault, verbs=verbs, skip=number, times=1))
            counts = await scale_up_and_down(world)
            if counts != EXPECTED:
                wrong[number] = counts
    assert wrong == {}


@pytest.mark.slow
@in_shards
async def test_with_a_410_in_place_of_any_single_watch_event_the_numbers_are_the_same(shard: int):
    _, events = await writes_and_events()
    assert events > 50
    wrong: dict[int, Counts] = {}
    for number in range(shard, events, SHARDS):
        async with one_worker() as (world, operator):
            operator.transport.rules.append(Rule(Gone(), skip=number, times=1))
            counts = await scale_up_and_down(world)
            if counts != EXPECTED:
                wrong[number] = counts
    assert wrong == {}
