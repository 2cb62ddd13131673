"""Crash at every write about a Workspace, lose every answer, see everything late: exactly N claims.

The scenario is a Workspace of three nodes, of which one is lost and replaced, and its deletion.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar

import pytest

from controller.kaito.api.karpenter import NODE_CLAIMS, NODES
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.resources import Resource
from controller.testing.faults import (
    Cut,
    DelayedResponse,
    ErrorResponse,
    Gone,
    Lag,
    LostRequest,
    LostResponse,
    Refused,
    Rule,
)
from controller.testing.journal import JournalEntry
from devcluster.karpenter import ClaimBehaviour
from tests.integration.harness import RunningOperator, World, embedded_world
from tests.integration.sweeps import Disturbance, Sweep, at_each_fault
from tests.integration.workspaces import Cloud, Workspaces, opened

pytestmark = [
    pytest.mark.slow,
    pytest.mark.embedded_only,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("silence"),
]

NAME = "phi"
COUNT = 3
WATCHED = (str(WORKSPACES), str(NODE_CLAIMS), str(NODES))

Outcome = tuple[int, int, int]
"""Claims that were ever created, those that were deleted, and the most at a time."""


def late() -> list[Rule]:
    return [Rule(Lag(10.0), resource=each) for each in WATCHED]


@asynccontextmanager
async def one_operator() -> AsyncIterator[tuple[Workspaces, RunningOperator]]:
    cloud = Cloud(ClaimBehaviour(node_after=5))
    async with embedded_world() as world, opened(world, cloud) as spaces:
        operator = spaces.start_operator(rules=late())
        await world.settle(30)
        yield spaces, operator


async def loss_and_deletion(spaces: Workspaces) -> Outcome:
    await spaces.create(NAME, count=COUNT)
    await spaces.has_nodes(NAME, seconds=900)
    await spaces.world.settle(120)
    lost, *_ = await spaces.claims(NAME)
    await spaces.world.user.delete(NODE_CLAIMS, "", lost.metadata.name)
    await spaces.world.settle(60)
    await spaces.has_nodes(NAME, seconds=900)
    await spaces.delete(NAME)
    await spaces.world.eventually(lambda: spaces.is_gone(NAME), seconds=900)
    assert await spaces.claims(NAME) == []
    referee = spaces.referee
    return referee.created[NAME], referee.deleted[NAME], referee.most[NAME]


DELETED: Outcome = (COUNT + 1, COUNT + 1, COUNT)


def is_ours(entry: JournalEntry) -> bool:
    return entry.attributes.writes and entry.attributes.resource in WATCHED


@at_each_fault
async def test_disturbed_at_any_single_write_a_lost_claim_is_replaced_once_and_none_stays(
    fault: Disturbance,
):
    sweep = Sweep[Outcome]()
    async with one_operator() as (spaces, operator):
        again = partial(spaces.start_operator, rules=late())
        sweep.disturb(fault, spaces.world, operator, ours=is_ours, again=again)
        await sweep.comes_to(DELETED, loss_and_deletion(spaces), more_than=12)


# -- whatever is late, lost or repeated ----------------------------------------------------------


WRITES = frozenset({"create", "patch", "update", "delete"})
FAULTS = (
    LostRequest(),
    LostResponse(),
    Refused(),
    ErrorResponse(500, "InternalError"),
    DelayedResponse(3.0),
)


Resources: TypeAlias = Sequence[Resource[Any]]
SpacesT = TypeVar("SpacesT", bound=Workspaces)


def now_and_then(chance: random.Random, share: float) -> Callable[[str], bool]:
    return lambda _name: chance.random() < share


def rules(chance: random.Random, written: Resources, watched: Resources) -> list[Rule]:
    """Faults of requests that write and of watches."""
    found = [
        Rule(fault, str(resource), WRITES, now_and_then(chance, 0.1))
        for resource in written
        for fault in FAULTS
    ]
    for resource in watched:
        found.append(Rule(Lag(chance.uniform(0, 10)), str(resource)))
        found.append(Rule(chance.choice([Cut(), Gone()]), str(resource), skip=3, times=2))
    return found


@asynccontextmanager
async def late_lost_or_repeated(
    seed: int,
    opened: Callable[[World, Cloud], AbstractAsyncContextManager[SpacesT]],
    written: Resources,
    watched: Resources,
) -> AsyncIterator[tuple[SpacesT, int]]:
    """A Workspace made under faults and by killed operators, at rest, and how many nodes it has."""
    chance = random.Random(seed)
    count = chance.choice([1, 3, 4])
    slow = [
        ClaimBehaviour(node_after=chance.uniform(1, 60), plugin_after=chance.uniform(1, 20))
        for _ in range(count)
    ]
    cloud = Cloud(of=lambda _workspace, number: slow[number] if number < count else None)
    async with embedded_world(seed=seed) as world, opened(world, cloud) as spaces:
        operator = spaces.start_operator(rules=rules(chance, written, watched))
        await spaces.create(count=count)
        for _ in range(chance.randrange(5)):
            await world.settle(chance.uniform(0, 30))
            await operator.kill()
            operator = spaces.start_operator(rules=rules(chance, written, watched))
        await world.settle(60)
        operator.transport.rules.clear()
        await spaces.has_nodes(seconds=900)
        await world.settle(120)
        yield spaces, count


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_is_late_lost_or_repeated_there_are_exactly_as_many_claims(seed: int):
    concerned = (WORKSPACES, NODE_CLAIMS)
    async with late_lost_or_repeated(seed, opened, concerned, concerned) as (spaces, count):
        referee = spaces.referee
        found = (referee.created[NAME], referee.deleted[NAME], referee.most[NAME])
        assert found == (count, 0, count)
