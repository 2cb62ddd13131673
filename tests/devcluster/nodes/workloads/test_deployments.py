"""Deployments have pods through ReplicaSets, and roll from one to the next."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from controller.devcluster.nodes import COMPONENTS, NodeSettings, run_nodes
from controller.devcluster.nodes.deployments import DeploymentController, ReplicaSetController
from controller.devcluster.nodes.objects import DEPLOYMENTS, REPLICA_SETS
from controller.devcluster.nodes.pods import PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from conftest import World


@asynccontextmanager
async def controlled(world: World) -> AsyncIterator[None]:
    async with run_nodes(
        world.client("nodes", world.recorder),
        clock=world.loop,
        wall=world.wall,
        rng=random.Random(2),
        settings=NodeSettings(),
        components=COMPONENTS,
        others=[ReplicaSetController, DeploymentController],
    ):
        yield


def deployment(image: str = "redis:1", **spec: Any) -> dict[str, Any]:
    labels = {"app": "d"}
    pod = {"containers": [{"name": "main", "image": image}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **spec,
        },
    }


async def images(world: World) -> list[str]:
    pods = (await world.user.list(PODS, "default")).items
    return sorted(pod.spec.containers[0].image for pod in pods)


async def change(world: World, **spec: Any) -> None:
    await world.user.merge_patch(DEPLOYMENTS, "default", "d", {"spec": spec})


async def test_a_deployment_has_its_pods_and_says_when_they_are_available(world: World):
    async with controlled(world):
        await world.user.create(DEPLOYMENTS, "default", deployment())
        await asyncio.sleep(1)
        status = (await world.user.get(DEPLOYMENTS, "default", "d")).status
        assert (status.replicas, status.available_replicas) == (3, 0)
        await asyncio.sleep(5)
        status = (await world.user.get(DEPLOYMENTS, "default", "d")).status
        assert (status.updated_replicas, status.available_replicas) == (3, 3)
        assert [(each.type, each.status) for each in status.conditions] == [("Available", "True")]
        await change(world, replicas=1)
        await asyncio.sleep(5)
        assert len(await images(world)) == 1


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
async def test_a_new_template_replaces_all_pods(world: World, strategy: str):
    async with controlled(world):
        manifest = deployment(strategy={"type": strategy})
        await world.user.create(DEPLOYMENTS, "default", manifest)
        await asyncio.sleep(5)
        await change(world, template=deployment("redis:2")["spec"]["template"])
        await asyncio.sleep(1.2)
        before = await images(world)
        assert ("redis:1" in before and "redis:2" in before) == (strategy == "RollingUpdate")
        await asyncio.sleep(10)
        assert await images(world) == ["redis:2"] * 3


async def test_a_pod_that_is_gone_is_replaced(world: World):
    async with controlled(world):
        await world.user.create(DEPLOYMENTS, "default", deployment(replicas=1))
        await asyncio.sleep(5)
        [pod] = (await world.user.list(PODS, "default")).items
        await world.user.delete(PODS, "default", pod.metadata.name)
        await asyncio.sleep(5)
        [other] = (await world.user.list(PODS, "default")).items
        assert other.metadata.uid != pod.metadata.uid


async def test_all_of_it_goes_with_the_deployment(world: World):
    async with controlled(world):
        await world.user.create(DEPLOYMENTS, "default", deployment())
        await asyncio.sleep(5)
        await world.user.delete(DEPLOYMENTS, "default", "d", propagation="Background")
        await asyncio.sleep(10)
        assert await images(world) == []
        assert (await world.user.list(REPLICA_SETS, "default")).items == []
