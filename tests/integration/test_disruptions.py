"""Nodes are taken away under a cluster: its workers are drained in Ray, and go when they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import NODES, PODS
from controller.ray.settings import RaySettings
from devcluster.nodes import NodeSettings
from tests.integration.harness import embedded_world
from tests.integration.rayservices import Services, asked, service_manifest
from tests.integration.rolling import RollingWorld, rolling_manifest

pytestmark = pytest.mark.embedded_only

THREE = NodeSettings(nodes=3, scheduling=True, termination_delay=300)


LONG = 900.0  # seconds, three times as long as a drain of ours may take


class Nodes(RollingWorld):
    """A cluster of two workers on three nodes, and an operator that may read nodes."""

    async def begin(self) -> None:
        self.start_operator(clusters=RaySettings(watch_nodes=True))
        await self.create()

    async def cordon(self, node: str) -> None:
        await self.world.user.merge_patch(NODES, "", node, {"spec": {"unschedulable": True}})

    async def delete(self, pod: Pod) -> None:
        await self.world.user.delete(PODS, self.world.namespace, pod.metadata.name)

    def exists(self, pod: Pod) -> bool:
        return pod.metadata.uid in {each.metadata.uid for each in self.world.journal.workers()}

    async def is_drained(self, count: int = 1) -> bool:
        return len(self.nodes().drained) == count

    async def is_whole_without(self, pod: Pod) -> bool:
        ready = self.world.journal.ready_workers()
        return len(ready) == 2 and not self.exists(pod)


@asynccontextmanager
async def three_nodes(**spec: Any) -> AsyncIterator[Nodes]:
    async with embedded_world(nodes=THREE) as world:
        manifest = rolling_manifest(2)
        manifest["spec"] |= {"upgradeStrategy": {"type": "None"}} | spec
        found = Nodes(world, manifest, refereed=False)
        await found.begin()
        yield found


async def test_a_worker_leaves_a_cordoned_node_when_its_work_has_ended_and_not_before():
    async with three_nodes() as it:
        worker, _ = it.workers()
        it.nodes().work[worker.metadata.uid] = it.world.loop.time() + LONG
        await it.cordon(worker.spec.node_name)
        await it.world.eventually(it.is_drained, seconds=60)
        await it.world.settle(LONG - 120)
        assert it.exists(worker)
        await it.world.eventually(lambda: it.is_whole_without(worker), seconds=600)
        assert not [pod for pod in it.workers() if pod.spec.node_name == worker.spec.node_name]
        assert (await it.events()).count("DrainingWorkerPod") == 1


@pytest.mark.parametrize(("spec", "others"), [({}, 1), ({"gracefulTerminationOptions": {}}, 2)])
async def test_a_worker_that_is_deleted_is_drained_in_its_grace_period(
    spec: dict[str, Any], others: int
):
    async with three_nodes(**spec) as it:
        worker, _ = it.workers()
        await it.delete(worker)
        await it.world.eventually(it.is_drained, seconds=20)
        assert len(it.world.journal.workers()) == others
        await it.world.eventually(lambda: it.is_whole_without(worker), seconds=60)


async def test_a_service_moves_to_another_cluster_before_the_head_of_its_own_goes():
    nodes = NodeSettings(nodes=3, scheduling=True)
    async with embedded_world(nodes=nodes) as world:
        services, failures = Services(world), list[str]()
        services.start_operator(clusters=RaySettings(watch_nodes=True))
        first = await services.deployed(service_manifest(rayClusterDeletionDelaySeconds=5))
        async with asked(services, failures):
            (head,) = services.heads()
            patch = {"spec": {"unschedulable": True}}
            await world.user.merge_patch(NODES, "", head.spec.node_name, patch)
            second = await services.taken_over(first)

            async def is_alone() -> bool:
                return await services.clusters() == [second]

            await world.eventually(is_alone, seconds=300)
            await world.settle(300)
        assert failures == []
        assert await services.clusters() == [second], "it is not moved again"
        assert head.spec.node_name not in {
            pod.spec.node_name for pod in world.journal.present.values()
        }
        (event,) = [
            note
            for reason, note in await world.events_about("RayCluster", first)
            if reason == "DisruptedHeadPod"
        ]
        assert "is cordoned" in event
