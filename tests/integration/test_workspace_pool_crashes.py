"""Crash at every write about a NodePool, lose every answer, see everything late: exactly one pool.

The scenario is a Workspace of three nodes, one of which was there before: its pool has two. That
node is lost, so that the pool grows, and the Workspace is deleted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from controller.kaito.api.karpenter import NODE_CLAIMS, NODE_POOLS, NODES
from controller.kaito.api.workspace import WORKSPACES
from controller.testing.faults import Lag, Rule
from controller.testing.journal import JournalEntry
from devcluster.karpenter import ClaimBehaviour
from tests.integration.harness import RunningOperator, embedded_world
from tests.integration.sweeps import Disturbance, Sweep, at_each_fault
from tests.integration.test_workspace_crashes import late_lost_or_repeated
from tests.integration.test_workspace_pools import own_node
from tests.integration.workspace_pools import PoolWorkspaces, opened
from tests.integration.workspaces import Cloud
from tests.kaito.workspace.given_pool import NODE_CLASSES

pytestmark = [
    pytest.mark.embedded_only,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("silence"),
]

NAME = "phi"
COUNT = 3
WRITTEN = tuple(str(each) for each in (WORKSPACES, NODE_POOLS, NODE_CLASSES, NODES))
WATCHED = (*WRITTEN, str(NODE_CLAIMS))

Outcome = tuple[int, int, list[list[int]], int]
"""Pools that were ever created and deleted, the sizes that each had, and the most claims."""


def late() -> list[Rule]:
    return [Rule(Lag(10.0), resource=each) for each in WATCHED]


@asynccontextmanager
async def one_operator() -> AsyncIterator[tuple[PoolWorkspaces, RunningOperator]]:
    cloud = Cloud(ClaimBehaviour(node_after=5))
    async with embedded_world() as world, opened(world, cloud) as spaces:
        await world.user.create(NODES, "", own_node())
        operator = spaces.start_operator(rules=late())
        await world.settle(30)
        yield spaces, operator


def outcome(spaces: PoolWorkspaces) -> Outcome:
    pools, name = spaces.pools, spaces.pool_name(NAME)
    sizes = list(pools.sizes.values())
    return pools.created[name], pools.deleted[name], sizes, spaces.referee.most[NAME]


async def loss_and_deletion(spaces: PoolWorkspaces) -> Outcome:
    await spaces.create(NAME, count=COUNT)
    await spaces.has_nodes(NAME, seconds=900)
    await spaces.world.settle(120)
    await spaces.world.user.delete(NODES, "", "mine")
    await spaces.world.settle(60)
    await spaces.has_nodes(NAME, seconds=900)
    await spaces.delete(NAME)
    await spaces.world.eventually(lambda: spaces.is_gone(NAME), seconds=900)
    assert await spaces.pool(NAME) is None
    assert await spaces.claims(NAME) == []
    return outcome(spaces)


DELETED: Outcome = (1, 1, [[2, 3]], 3)


def is_ours(entry: JournalEntry) -> bool:
    return entry.attributes.writes and entry.attributes.resource in WRITTEN


async def test_undisturbed_there_is_one_pool_that_grows_once():
    async with one_operator() as (spaces, _):
        assert await loss_and_deletion(spaces) == DELETED


@at_each_fault
@pytest.mark.slow
async def test_disturbed_at_any_single_write_a_pool_grows_once_and_does_not_stay(
    fault: Disturbance,
):
    sweep = Sweep[Outcome]()
    async with one_operator() as (spaces, operator):
        again = partial(spaces.start_operator, rules=late())
        sweep.disturb(fault, spaces.world, operator, ours=is_ours, again=again)
        await sweep.comes_to(DELETED, loss_and_deletion(spaces), more_than=9)


SEEDS = [
    0,
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8)),
    *(pytest.param(seed, marks=[pytest.mark.slow, pytest.mark.rare]) for seed in range(8, 20)),
]


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_is_late_lost_or_repeated_there_is_one_pool_of_as_many_nodes(seed: int):
    written = (WORKSPACES, NODE_POOLS, NODE_CLASSES)
    watched = (*written, NODE_CLAIMS, NODES)
    async with late_lost_or_repeated(seed, opened, written, watched) as (spaces, count):
        assert outcome(spaces) == (1, 0, [[count]], count)
