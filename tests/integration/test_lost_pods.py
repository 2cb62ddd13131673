"""Lost pods are replaced at once, those that are lost again and again with back-off."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from controller.kube.errors import KubeError
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import World

pytestmark = pytest.mark.embedded_only


async def test_pods_that_are_deleted_the_moment_they_are_made_are_replaced_with_back_off(
    world: World,
):
    """Whether any plan sees them or not."""
    server = world.server
    assert server is not None

    async def delete(name: str) -> None:
        with suppress(KubeError):
            await world.user.delete(PODS, world.namespace, name, grace_seconds=0)

    def on_write(event: Any) -> None:
        if event.table == "pods" and event.type == "ADDED":
            world.background(delete(event.current.object["metadata"]["name"]))

    server.on_write.append(on_write)
    world.start_operator()
    await world.create_cluster()
    await world.settle(600)
    assert 3 <= len(world.journal.created) <= 12
    cluster = await world.cluster()
    said = {each["type"]: each for each in cluster.status["conditions"]}["Ready"]
    assert said["reason"] == "PodDeleted"


async def test_a_suspension_is_reported_at_once_although_pods_were_lost_again_and_again(
    world: World,
):
    world.start_operator()
    await world.create_cluster()
    await world.eventually(world.is_ready)
    for _ in range(3):
        lost = world.journal.workers()[-1].metadata.name
        await world.user.delete(PODS, world.namespace, lost, grace_seconds=0)
        await world.settle(1)
    await world.eventually(lambda: len(world.journal.workers()) < 2)
    suspend = {"spec": {"suspend": True}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", suspend)
    await world.eventually(lambda: not world.journal.present, seconds=20)

    async def is_suspended() -> bool:
        return (await world.cluster()).status["state"] == "suspended"

    await world.eventually(is_suspended, seconds=2)


@pytest.mark.slow
async def test_many_pods_that_are_evicted_at_once_are_replaced_at_once(world: World):
    world.start_operator()
    await world.create_cluster(replicas=8)
    await world.eventually(world.is_ready)
    before = {pod.metadata.name for pod in world.journal.workers()}
    for name in sorted(before):
        await world.user.delete(PODS, world.namespace, name)
        await world.settle(0.5)

    def replaced() -> bool:
        ready = {pod.metadata.name for pod in world.journal.ready_workers()}
        return len(ready) == 8 and not before & ready

    await world.eventually(replaced, seconds=40)
