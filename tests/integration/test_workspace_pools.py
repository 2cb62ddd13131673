"""Workspaces with NodePools on an API server: from a manifest to nodes, and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from controller.apimachinery.metadata import OWNER_UID
from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_CLAIMS, NODE_POOLS
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.resources import NODES
from devcluster.karpenter import ClaimBehaviour
from tests.integration.harness import World
from tests.integration.test_rights import RULES, Rights
from tests.integration.workspace_pools import PoolWorkspaces, definitions, opened
from tests.integration.workspaces import INSTANCE
from tests.kaito.workspace.given_pool import NODE_CLASSES, UBUNTU
from tests.kaito.workspace.test_permissions import NODE_CLASS_RULE

pytestmark = pytest.mark.slow

embedded_only = pytest.mark.embedded_only


@pytest.fixture
async def spaces(world: World) -> AsyncIterator[PoolWorkspaces]:
    async with opened(world) as workspaces:
        yield workspaces


async def test_a_workspace_gets_a_pool_and_its_nodes(spaces: PoolWorkspaces):
    spaces.start_operator()
    created = await spaces.create(count=3)
    await spaces.has_nodes()
    pool = await spaces.pool()
    assert pool is not None
    assert pool.spec.replicas == 3
    claims = await spaces.claims()
    assert {(each.metadata.labels or {})[OWNER_UID] for each in claims} == {created.metadata.uid}
    workspace = await spaces.workspace()
    assert workspace.status["targetNodeCount"] == 3
    assert workspace.status["workerNodes"] == sorted(each.status.node_name for each in claims)
    assert (await spaces.condition("NodeClaimReady"))[:2] == ("True", "NodeClaimsReady")
    await spaces.world.settle(5)
    events = [reason for reason, _ in await spaces.world.events_about("Workspace", "phi")]
    assert events == ["NodeClassCreated", "NodePoolCreated", "CreatedStatefulSet"]
    found = await spaces.world.user.get(NODE_CLASSES, "", UBUNTU)
    assert found.status.condition("Ready") is not None


@embedded_only
async def test_nothing_is_read_but_by_watches(spaces: PoolWorkspaces):
    operator = spaces.start_operator()
    await spaces.world.settle(5)
    begun = len(operator.transport.journal.entries)
    await spaces.create(count=3)
    await spaces.has_nodes()
    asked = [each.attributes for each in operator.transport.journal.entries[begun:]]
    nodes = {str(each) for each in (NODES, NODE_CLAIMS, NODE_POOLS, NODE_CLASSES)}
    about = [f"{each.verb} {each.resource}" for each in asked if each.resource in nodes]
    assert about == [
        *(f"create {each}" for each in (NODE_CLASSES, NODE_POOLS)),
        *[f"patch {NODES}"] * 3,
    ]


@embedded_only
async def test_while_nothing_happens_nothing_is_asked(spaces: PoolWorkspaces):
    spaces.cloud.behaviour = ClaimBehaviour(node_after=1e6)
    operator = spaces.start_operator()
    await spaces.create(count=2)
    await spaces.reaches("NodeClaimReady", "False", "NodeClaimNotReady")
    await spaces.world.settle(30)
    begun = len(operator.transport.journal.entries)
    await spaces.world.settle(600)
    asked = [each.attributes for each in operator.transport.journal.entries[begun:]]
    assert [each for each in asked if each.resource and each.verb != "watch"] == []


def own_node() -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "mine", "labels": {labels.INSTANCE_TYPE: INSTANCE, "apps": "phi"}},
        "status": {"capacity": {"nvidia.com/gpu": "1"}, "conditions": [ready]},
    }


async def test_an_edit_of_the_instance_type_is_refused_and_the_pool_stays(spaces: PoolWorkspaces):
    spaces.start_operator()
    await spaces.create(count=2)
    await spaces.has_nodes()
    pool = await spaces.pool()
    patch = {"resource": {"instanceType": "Standard_NC48ads_A100_v4"}}
    await spaces.world.user.merge_patch(WORKSPACES, spaces.world.namespace, "phi", patch)
    await spaces.reaches("ResourceReady", "False", "InvalidWorkspaceSpec")
    await spaces.world.settle(60 if spaces.world.server is not None else 5)
    assert await spaces.pool() == pool
    assert len(await spaces.claims()) == 2


async def test_a_pool_that_a_user_scales_up_stays_as_it_is(spaces: PoolWorkspaces):
    spaces.start_operator()
    await spaces.create(count=2)
    await spaces.has_nodes()
    patch = {"spec": {"replicas": 4}}
    await spaces.world.user.merge_patch(NODE_POOLS, "", spaces.pool_name(), patch)
    await spaces.world.settle(20)
    pool = await spaces.pool()
    assert pool is not None
    assert pool.spec.replicas == 4


@embedded_only
async def test_the_charts_rights_are_enough(spaces: PoolWorkspaces):
    rules = yaml.safe_load((RULES.parent / "workspace-rules.yaml").read_text())
    rights = Rights(
        *rules["namespaced"], *rules["cluster"], *rules["nodePools"], NODE_CLASS_RULE
    )  # fmt: skip
    assert spaces.world.server is not None
    spaces.world.server.audit.authorizer = rights.allows
    await spaces.world.user.create(NODES, "", own_node())
    spaces.start_operator()
    await spaces.create(count=2)
    await spaces.has_nodes()
    await spaces.world.user.delete(NODES, "", "mine")
    await spaces.reaches("ResourceReady", "False", "NodeClaimNotReady")
    await spaces.has_nodes()
    await spaces.delete()
    await spaces.world.eventually(spaces.is_gone)
    assert rights.refused == []


@embedded_only
async def test_an_old_definition_of_pools_is_said(world: World):
    spaces = PoolWorkspaces(world)
    await spaces.install(*definitions(is_static=False))
    async with spaces.provisioner():
        operator = spaces.start_operator()
        await spaces.create()
        await spaces.reaches("ResourceReady", "False", "NodePoolNotStatic")
        begun = len(operator.transport.journal.entries)
        await spaces.world.settle(60)
        later = operator.transport.journal.entries[begun:]
        pools = [each for each in later if each.attributes.resource == str(NODE_POOLS)]
        assert [each for each in pools if each.attributes.writes] == []
