"""Crash at every write about a fleet, lose every answer: each copy is replaced exactly once.

The scenario is a fleet of two that is upgraded, scaled to three and rolled back to the first
template, which the referee watches all the while. It is played once undisturbed; at each write a
forked process goes on with a fault in that very place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.testing.faults import JournalEntry, Lag, LostRequest, LostResponse, Rule
from tests.integration.fleets import NEW, OLD, FleetReferee, Fleets
from tests.integration.forks import Forks, InEachFork
from tests.integration.harness import RunningOperator, embedded_world
from tests.integration.test_crashes import all_but, at_each_kill, at_each_loss, kill_when, shards

pytestmark = [
    pytest.mark.embedded_only,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("silence"),
]

SHARDS = 4
in_shards = pytest.mark.parametrize("shard", shards(SHARDS, in_ci=1))
WRITES = frozenset({"create", "patch", "update", "delete"})

Outcome = tuple[int, int, tuple[str, ...]]
"""Copies that were ever created, the most at a time, and what the referee saw."""

EXPECTED: Outcome = (2 + 2 + 1 + 3, 4, ())


def lag(resource: str) -> Rule:
    return Rule(Lag(10.0), resource=resource)


@asynccontextmanager
async def two_copies() -> AsyncIterator[tuple[Fleets, RunningOperator, FleetReferee]]:
    """A fleet of two, ready, whose operator sees its clusters late."""
    async with embedded_world() as world:
        assert world.server is not None
        fleets, referee = Fleets(world), FleetReferee()
        world.server.on_write.append(referee)
        operator = fleets.start_operator(rules=[lag(str(RAYCLUSTERS))])
        await fleets.create(replicas=2)
        await fleets.completes(OLD, 2)
        await world.settle(30)
        yield fleets, operator, referee


async def upheaval(fleets: Fleets, referee: FleetReferee) -> Outcome:
    await fleets.use(NEW)
    await fleets.completes(NEW, 2)
    await fleets.patch(replicas=3)
    await fleets.completes(NEW, 3)
    await fleets.use(OLD)
    await fleets.completes(OLD, 3)
    await fleets.world.settle(60)
    return referee.created, referee.peak, tuple(referee.violations)


def is_ours(entry: JournalEntry) -> bool:
    """Writes of the fleet's controller: not the status of its clusters, nor their pods."""
    about = entry.attributes
    if about.resource == str(RAYCLUSTERS):
        return about.writes and about.subresource != "status"
    return about.writes and about.resource == str(RAYCLUSTERFLEETS)


@pytest.mark.slow
@at_each_kill
@in_shards
async def test_killed_at_any_single_write_each_copy_is_replaced_once(applied: bool, shard: int):
    forks = Forks[Outcome](shard, SHARDS)
    async with two_copies() as (fleets, operator, referee):
        again = partial(fleets.start_operator, rules=[lag(str(RAYCLUSTERS))])
        kill_when(fleets.world, operator, forks.strikes, applied=applied, ours=is_ours, start=again)
        assert await forks.play(upheaval(fleets, referee)) == EXPECTED
    assert forks.places > 16
    assert all_but(EXPECTED, forks) == {}


@at_each_loss
@pytest.mark.parametrize("resource", [RAYCLUSTERS, RAYCLUSTERFLEETS], ids=str)
@pytest.mark.slow
async def test_with_any_single_answer_lost_each_copy_is_replaced_once(
    fault: LostResponse | LostRequest, resource: object
):
    forks = Forks[Outcome](0, SHARDS)
    async with two_copies() as (fleets, operator, referee):
        rule = InEachFork(fault, str(resource), WRITES, strikes=forks.strikes)
        operator.transport.rules.append(rule)
        assert await forks.play(upheaval(fleets, referee)) == EXPECTED
    assert all_but(EXPECTED, forks) == {}


@pytest.mark.parametrize("resource", [RAYCLUSTERS, RAYCLUSTERFLEETS], ids=str)
@pytest.mark.slow
async def test_with_late_watches_each_copy_is_replaced_once(resource: object):
    async with embedded_world() as world:
        assert world.server is not None
        fleets, referee = Fleets(world), FleetReferee()
        world.server.on_write.append(referee)
        fleets.start_operator(rules=[lag(str(resource))])
        await fleets.create(replicas=2)
        await fleets.completes(OLD, 2)
        assert await upheaval(fleets, referee) == EXPECTED
