"""Crash at every write about a fleet, lose every answer: each copy is replaced exactly once.

The scenario is a fleet of two that is upgraded, scaled to three and rolled back to the first
template, which the referee watches all the while.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.testing.faults import JournalEntry, Lag, Rule
from tests.integration.fleets import NEW, OLD, FleetReferee, Fleets
from tests.integration.harness import RunningOperator, embedded_world
from tests.integration.sweeps import Disturbance, Sweep, at_each_fault, shards

pytestmark = [
    pytest.mark.slow,
    pytest.mark.embedded_only,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("silence"),
]

SHARDS = 4
in_shards = shards(SHARDS)

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


@at_each_fault
@in_shards
async def test_disturbed_at_any_single_write_each_copy_is_replaced_once(
    fault: Disturbance, shard: int
):
    sweep = Sweep[Outcome](shard, SHARDS)
    async with two_copies() as (fleets, operator, referee):
        again = partial(fleets.start_operator, rules=[lag(str(RAYCLUSTERS))])
        sweep.disturb(fault, fleets.world, operator, ours=is_ours, again=again)
        await sweep.comes_to(EXPECTED, upheaval(fleets, referee), more_than=16)


@pytest.mark.parametrize("resource", [RAYCLUSTERS, RAYCLUSTERFLEETS], ids=str)
async def test_with_late_watches_each_copy_is_replaced_once(resource: object):
    async with embedded_world() as world:
        assert world.server is not None
        fleets, referee = Fleets(world), FleetReferee()
        world.server.on_write.append(referee)
        fleets.start_operator(rules=[lag(str(resource))])
        await fleets.create(replicas=2)
        await fleets.completes(OLD, 2)
        assert await upheaval(fleets, referee) == EXPECTED
