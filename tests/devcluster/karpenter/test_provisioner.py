"""The simulated provisioner: what becomes of a claim, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.kube.errors import NotFound
from controller.kube.resources import CRDS, NODES, PODS
from controller.testing.cluster import Cluster, embedded_server, virtual_wall
from devcluster.karpenter import (
    NODE_CLAIMS,
    ClaimBehaviour,
    SimulatedProvisioner,
    node_claim_definition,
    node_name,
)
from devcluster.nodes import run_nodes

SKU = "node.kubernetes.io/instance-type"


class Cloud(Cluster):
    def __init__(self, transport: Any) -> None:
        super().__init__(transport, virtual_wall)
        self.user = self.client("user")

    @asynccontextmanager
    async def provisioner(self, **behaviour: Any) -> AsyncIterator[None]:
        fate = ClaimBehaviour(**behaviour)
        async with run_nodes(
            self.client("provisioner"),
            clock=self.loop,
            wall=self.wall,
            rng=random.Random(1),
            components=frozenset(),
            others=[lambda context: SimulatedProvisioner(context, lambda _claim: fate)],
        ):
            yield

    async def claim(self, name: str = "c") -> None:
        one_type = {"key": SKU, "operator": "In", "values": ["a100"]}
        two_zones = {"key": "zone", "operator": "In", "values": ["a", "b"]}
        body = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"for": "phi"}},
            "spec": {
                "nodeClassRef": {"group": "g", "kind": "Class", "name": "default"},
                "requirements": [one_type, two_zones],
                "taints": [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}],
            },
        }
        await self.user.create(NODE_CLAIMS, "", body)

    async def state(self, name: str = "c") -> tuple[str, str]:
        """Status and reason of the condition that says most."""
        found = await self.user.get(NODE_CLAIMS, "", name)
        said = found.condition("Ready") or found.condition("Launched")
        return (said.status, said.reason or "") if said else ("", "")

    async def node(self, claim: str = "c") -> dict[str, Any] | None:
        return await self._read(NODES, node_name(claim))

    async def is_claimed(self, name: str = "c") -> bool:
        return await self._read(NODE_CLAIMS, name) is not None

    async def gpus(self, claim: str = "c") -> str:
        found = await self.node(claim)
        assert found is not None
        return found["status"].get("allocatable", {}).get("nvidia.com/gpu", "")

    async def _read(self, resource: Any, name: str) -> dict[str, Any] | None:
        try:
            return await self.user.get_raw(resource, "", name)
        except NotFound:
            return None


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    async with embedded_server() as server:
        cloud = Cloud(server)
        await cloud.user.create(CRDS, "", node_claim_definition())
        yield cloud


async def test_a_node_comes_after_its_time_and_offers_its_gpus_later(cloud: Cloud):
    async with cloud.provisioner(node_after=10, plugin_after=5, gpus=4):
        await cloud.claim()
        await asyncio.sleep(9.5)
        assert await cloud.state() == ("Unknown", "AwaitingReconciliation")
        assert await cloud.node() is None
        await asyncio.sleep(1)
        assert await cloud.state() == ("True", "Ready")
        assert await cloud.gpus() == ""
        await asyncio.sleep(4)
        assert await cloud.gpus() == ""
        await asyncio.sleep(1)
        assert await cloud.gpus() == "4"


async def test_a_node_has_the_labels_that_leave_no_choice_and_the_taints_of_its_claim(cloud: Cloud):
    async with cloud.provisioner(node_after=1):
        await cloud.claim()
        await asyncio.sleep(2)
    node = await cloud.node()
    assert node is not None
    own = {key: node["metadata"]["labels"].get(key) for key in ("for", SKU, "zone")}
    assert own == {"for": "phi", SKU: "a100", "zone": None}
    assert node["spec"]["taints"] == [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}]


async def test_a_stock_out_is_said_on_the_claim_which_is_given_up_later(cloud: Cloud):
    async with cloud.provisioner(node_after=5, stock_out=True, gives_up_after=20, gone_after=2):
        await cloud.claim()
        await asyncio.sleep(6)
        assert await cloud.state() == ("False", "InsufficientCapacity")
        await asyncio.sleep(13)
        assert await cloud.is_claimed()
        await asyncio.sleep(4)
        assert not await cloud.is_claimed()
        assert await cloud.node() is None


async def test_a_machine_that_is_lost_takes_its_claim_with_it(cloud: Cloud):
    async with cloud.provisioner(node_after=1, lost_after=30, gone_after=2):
        await cloud.claim()
        await asyncio.sleep(29)
        assert await cloud.node() is not None
        await asyncio.sleep(4)
        assert await cloud.node() is None
        assert not await cloud.is_claimed()


async def test_a_deleted_claim_is_held_until_its_node_is_gone_with_its_pods(cloud: Cloud):
    async with cloud.provisioner(node_after=1, gone_after=10):
        await cloud.claim()
        await asyncio.sleep(2)
        for name, node in (("on-it", node_name("c")), ("elsewhere", "other")):
            spec = {"nodeName": node, "containers": [{"name": "m", "image": "i"}]}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            await cloud.user.create(PODS, "default", body)
        await cloud.user.delete(NODE_CLAIMS, "", "c")
        await asyncio.sleep(9)
        assert await cloud.is_claimed()
        assert await cloud.node() is not None
        await asyncio.sleep(2)
        assert not await cloud.is_claimed()
        assert await cloud.node() is None
        pods = (await cloud.user.list(PODS, "default")).items
        assert [pod.metadata.name for pod in pods] == ["elsewhere"]
