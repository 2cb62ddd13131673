"""Crash at every write about a Workspace, lose every answer, see everything late: exactly N claims.

The scenario is a Workspace of three nodes. In the longer one a claim is lost and replaced, and the
Workspace is deleted. Each is played once undisturbed; at each write a forked process goes on with
a fault in that very place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from controller.devcluster.karpenter import ClaimBehaviour
from controller.kaito.api.karpenter import NODE_CLAIMS, NODES
from controller.kaito.api.workspace import WORKSPACES
from controller.testing.faults import Lag, LostRequest, LostResponse, Rule
from controller.testing.journal import JournalEntry
from tests.integration.forks import Forks, InEachFork
from tests.integration.harness import RunningOperator, embedded_world
from tests.integration.test_crashes import all_but, at_each_kill, at_each_loss, kill_when
from tests.integration.workspaces import Cloud, Workspaces, opened

pytestmark = [
    pytest.mark.embedded_only,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("silence"),
]

NAME = "phi"
COUNT = 3
WATCHED = (str(WORKSPACES), str(NODE_CLAIMS), str(NODES))
WRITES = frozenset({"create", "patch", "update", "delete"})

Outcome = tuple[int, int, int]
"""Claims that were ever created, those that were deleted, and the most at a time."""


def late() -> list[Rule]:
    """Everything is seen ten seconds late."""
    return [Rule(Lag(10.0), resource=each) for each in WATCHED]


@asynccontextmanager
async def one_operator() -> AsyncIterator[tuple[Workspaces, RunningOperator]]:
    cloud = Cloud(ClaimBehaviour(node_after=5))
    async with embedded_world() as world, opened(world, cloud) as spaces:
        operator = spaces.start_operator(rules=late())
        await world.settle(30)
        yield spaces, operator


def outcome(spaces: Workspaces) -> Outcome:
    referee = spaces.referee
    return referee.created[NAME], referee.deleted[NAME], referee.most[NAME]


async def provisioning(spaces: Workspaces) -> Outcome:
    await spaces.create(NAME, count=COUNT)
    await spaces.has_nodes(NAME, seconds=900)
    await spaces.world.settle(120)
    return outcome(spaces)


async def loss_and_deletion(spaces: Workspaces) -> Outcome:
    await provisioning(spaces)
    lost, *_ = await spaces.claims(NAME)
    await spaces.world.user.delete(NODE_CLAIMS, "", lost.metadata.name)
    await spaces.world.settle(60)
    await spaces.has_nodes(NAME, seconds=900)
    await spaces.delete(NAME)
    await spaces.world.eventually(lambda: spaces.is_gone(NAME), seconds=900)
    assert await spaces.claims(NAME) == []
    return outcome(spaces)


PROVISIONED: Outcome = (COUNT, 0, COUNT)
DELETED: Outcome = (COUNT + 1, COUNT + 1, COUNT)


def is_ours(entry: JournalEntry) -> bool:
    return entry.attributes.writes and entry.attributes.resource in WATCHED


@at_each_kill
@pytest.mark.slow
async def test_killed_at_any_single_write_there_are_exactly_as_many_claims(applied: bool):
    forks = Forks[Outcome]()
    async with one_operator() as (spaces, operator):
        again = partial(spaces.start_operator, rules=late())
        kill_when(spaces.world, operator, forks.strikes, applied=applied, ours=is_ours, start=again)
        assert await forks.play(provisioning(spaces)) == PROVISIONED
    assert forks.places > 6
    assert all_but(PROVISIONED, forks) == {}


@at_each_kill
@pytest.mark.slow
async def test_killed_at_any_single_write_a_lost_claim_is_replaced_once_and_none_stays(
    applied: bool,
):
    forks = Forks[Outcome]()
    async with one_operator() as (spaces, operator):
        again = partial(spaces.start_operator, rules=late())
        kill_when(spaces.world, operator, forks.strikes, applied=applied, ours=is_ours, start=again)
        assert await forks.play(loss_and_deletion(spaces)) == DELETED
    assert forks.places > 12
    assert all_but(DELETED, forks) == {}


@at_each_loss
@pytest.mark.parametrize("resource", WATCHED)
@pytest.mark.slow
async def test_with_any_single_answer_lost_the_claims_are_the_same(
    fault: LostResponse | LostRequest, resource: str
):
    forks = Forks[Outcome]()
    async with one_operator() as (spaces, operator):
        rule = InEachFork(fault, resource, WRITES, strikes=forks.strikes)
        operator.transport.rules.append(rule)
        assert await forks.play(loss_and_deletion(spaces)) == DELETED
    assert forks.places > 0
    assert all_but(DELETED, forks) == {}
