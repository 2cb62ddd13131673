"""NodeClaims and NodePools whose Workspace went without its finalizer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from controller.command.operator import collect_orphans
from controller.kaito.api.karpenter import NODE_POOLS
from controller.kaito.api.workspace import WORKSPACES
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import RunningOperator, World
from tests.integration.workspace_pools import opened as opened_with_pools
from tests.integration.workspaces import Workspaces, opened

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

ROUNDS = 200.0
"""Seconds within which an orphan is deleted."""


@pytest.fixture
async def spaces(world: World) -> AsyncIterator[Workspaces]:
    async with opened(world) as workspaces:
        yield workspaces


def start(
    spaces: Workspaces, *rules: Rule, namespaces: Sequence[str] | None = None
) -> RunningOperator:
    running = spaces.start_operator(rules=rules, namespaces=namespaces)
    served = [spaces.world.namespace] if namespaces is None else namespaces
    client = spaces.world.client("orphans", running.transport)
    collect_orphans(running.operator, client, served)
    return running


async def delete_without_finalizer(spaces: Workspaces, name: str = "phi") -> None:
    """Delete a Workspace as somebody does who does not want to wait."""
    patch = {"metadata": {"finalizers": None}}
    await spaces.delete(name)
    await spaces.world.user.merge_patch(WORKSPACES, spaces.world.namespace, name, patch)
    assert await spaces.is_gone(name)


async def orphaned(spaces: Workspaces) -> None:
    """Have a claim whose Workspace went while no operator ran."""
    operator = spaces.start_operator()
    await spaces.create()
    await spaces.has_nodes()
    await operator.kill()
    await delete_without_finalizer(spaces)


async def test_claims_of_a_workspace_that_went_without_its_finalizer_are_deleted(
    spaces: Workspaces,
):
    await orphaned(spaces)
    await spaces.create("kept")
    start(spaces)
    await spaces.has_nodes("kept")
    await spaces.world.settle(ROUNDS)
    assert await spaces.claims() == []
    assert len(await spaces.claims("kept")) == 1
    assert spaces.referee.deleted["kept"] == 0


async def test_a_pool_of_a_workspace_that_went_without_its_finalizer_is_deleted(world: World):
    async with opened_with_pools(world) as spaces:
        await orphaned(spaces)
        assert (await world.user.list(NODE_POOLS, "")).items
        start(spaces)
        await world.settle(ROUNDS)
        assert (await world.user.list(NODE_POOLS, "")).items == []


async def test_a_refused_deletion_is_tried_once_a_minute_and_works_in_the_end(spaces: Workspaces):
    await orphaned(spaces)
    denial = Rule(
        ErrorResponse(403, "Forbidden", "denied"), "nodeclaims.karpenter.sh", frozenset({"delete"})
    )
    running = start(spaces, denial)
    await spaces.world.settle(600)
    assert len(await spaces.claims()) == 1
    sent = [each.attributes for each in running.transport.journal.entries]
    about = [each for each in sent if each.verb in {"get", "delete"} and each.name]
    assert 10 <= len(about) <= 30
    running.transport.rules.clear()
    await spaces.world.settle(ROUNDS)
    assert await spaces.claims() == []
