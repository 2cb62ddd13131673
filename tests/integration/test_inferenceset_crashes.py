"""Crash at every write about an InferenceSet, lose every answer: never two for one replica.

The scenario is a set of three that is scaled to one, then to four, then deleted. The referee looks
after each write that there are never more Workspaces than the set asks for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.workspace import WORKSPACES
from controller.testing.faults import Lag, Rule
from controller.testing.journal import JournalEntry
from tests.integration.harness import RunningOperator, embedded_world
from tests.integration.inferencesets import InferenceSets, served
from tests.integration.sweeps import Disturbance, Sweep, at_each_fault

pytestmark = [
    pytest.mark.embedded_only,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("silence"),
]

WATCHED = (str(INFERENCE_SETS), str(WORKSPACES))

Outcome = tuple[int, int, tuple[str, ...]]
"""Workspaces that were ever created and deleted, and what the referee saw."""

EXPECTED: Outcome = (3 + 3, 2 + 4, ())


def late() -> list[Rule]:
    return [Rule(Lag(10.0), resource=each) for each in WATCHED]


@asynccontextmanager
async def one_operator() -> AsyncGenerator[tuple[InferenceSets, RunningOperator]]:
    async with embedded_world() as world, served(world) as sets:
        operator = sets.start_operator(rules=late())
        await world.settle(30)
        yield sets, operator


async def life(sets: InferenceSets) -> Outcome:
    await sets.create(replicas=3)
    await sets.serves(3)
    await sets.scale(1)
    await sets.serves(1)
    await sets.scale(4)
    await sets.serves(4)
    await sets.world.settle(60)
    await sets.delete()
    await sets.are_gone()
    await sets.world.settle(60)
    assert await sets.workspaces() == []
    referee = sets.referee
    return referee.created, referee.deleted, tuple(referee.violations)


def is_ours(entry: JournalEntry) -> bool:
    return entry.attributes.writes and entry.attributes.resource in WATCHED


@at_each_fault
@pytest.mark.slow
async def test_disturbed_at_any_single_write_no_replica_has_two_workspaces(fault: Disturbance):
    sweep = Sweep[Outcome]()
    async with one_operator() as (sets, operator):
        again = partial(sets.start_operator, rules=late())
        sweep.disturb(fault, sets.world, operator, ours=is_ours, again=again)
        await sweep.comes_to(EXPECTED, life(sets), more_than=12)


async def test_with_late_watches_no_replica_has_two_workspaces():
    async with one_operator() as (sets, _):
        assert await life(sets) == EXPECTED
