"""Workspaces with NodePools in a world: a simulated Karpenter, and a referee over the pools."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from controller.kaito.api import labels
from controller.kaito.api.definitions import workspace_definition
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.karpenter import NODE_CLAIMS, NODE_POOLS, NodePool
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.provisioning.nodes import node_pool_name
from controller.kube.errors import NotFound
from devcluster.apiserver import StoredEvent
from devcluster.karpenter import node_claim_definition
from devcluster.nodes.components import Component, ComponentContext
from tests.fakes.karpenter.node_pools import (
    SimulatedPools,
    SimulatedProvider,
    node_class_definition,
    node_pool_definition,
)
from tests.integration.harness import World
from tests.integration.workspaces import Cloud, Workspaces
from tests.kaito.workspace.given_pool import CLASSES, NODE_CLASSES, POOLS


def definitions(*, is_static: bool = True) -> tuple[dict[str, Any], ...]:
    pools = node_pool_definition(is_static=is_static)
    return (
        workspace_definition(), node_claim_definition(), pools, node_class_definition(CLASSES),
    )  # fmt: skip


class PoolReferee:
    """Counts what happens to pools at every write to the store.

    Attributes:
        deleted: how many went, or were marked for it.
        sizes: the numbers of nodes that a pool had, by its uid.
    """

    def __init__(self) -> None:
        self.created: Counter[str] = Counter()
        self.deleted: Counter[str] = Counter()
        self.sizes: defaultdict[str, list[int]] = defaultdict(list)
        self._known: set[str] = set()
        self._gone: set[str] = set()

    def __call__(self, event: StoredEvent) -> None:
        if event.table != str(NODE_POOLS):
            return
        found = event.current.object
        name, uid = found["metadata"]["name"], found["metadata"]["uid"]
        if uid not in self._known:
            self._known.add(uid)
            self.created[name] += 1
        if uid not in self._gone and (
            event.type == "DELETED" or "deletionTimestamp" in found["metadata"]
        ):
            self._gone.add(uid)
            self.deleted[name] += 1
        size = found["spec"].get("replicas", 0)
        if size not in self.sizes[uid][-1:]:
            self.sizes[uid].append(size)

    @property
    def shrank(self) -> bool:
        """Return whether any pool has ever got fewer nodes."""
        return any(sizes != sorted(sizes) for sizes in self.sizes.values())


class PoolWorkspaces(Workspaces):
    served = (WORKSPACES, INFERENCE_SETS, NODE_CLAIMS, NODE_POOLS, NODE_CLASSES)
    settings = POOLS
    claim_label = labels.POOL_WORKSPACE
    namespace_label = labels.POOL_WORKSPACE_NAMESPACE

    def __init__(self, world: World, cloud: Cloud | None = None) -> None:
        super().__init__(world, cloud)
        self.pools = PoolReferee()
        if world.server is not None:
            world.server.on_write.append(self.pools)

    def components(self) -> list[Callable[[ComponentContext], Component]]:
        return [
            *super().components(),
            SimulatedPools,
            lambda context: SimulatedProvider(context, NODE_CLASSES),
        ]

    def pool_name(self, name: str = "phi") -> str:
        return node_pool_name(self.world.namespace, name)

    async def pool(self, name: str = "phi") -> NodePool | None:
        try:
            return await self.world.user.get(NODE_POOLS, "", self.pool_name(name))
        except NotFound:
            return None


@asynccontextmanager
async def opened(world: World, cloud: Cloud | None = None) -> AsyncIterator[PoolWorkspaces]:
    workspaces = PoolWorkspaces(world, cloud)
    await workspaces.install(*definitions())
    async with workspaces.provisioner():
        yield workspaces
