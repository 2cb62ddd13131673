"""A suspension frees what a cluster uses, also beside an edit that is refused for another field."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.custom_object import status_of
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import World, embedded_world, example_cluster

pytestmark = pytest.mark.embedded_only

NO_SUCH_RAY = {"authOptions": {"mode": "token"}, "rayVersion": "2.0.0"}


async def edit(world: World, **spec: Any) -> None:
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", {"spec": spec})
    await world.settle(30)


async def pods(world: World) -> int:
    return len((await world.user.list(PODS, world.namespace)).items)


async def test_a_suspended_cluster_stays_so_until_the_other_field_is_right_and_it_is_resumed():
    async with embedded_world() as world:
        world.start_operator()
        await world.user.create(RAYCLUSTERS, world.namespace, example_cluster(replicas=2))
        await world.eventually(world.is_ready)
        await edit(world, **NO_SUCH_RAY)
        assert await pods(world) == 3
        await edit(world, suspend=True)
        assert await pods(world) == 0
        assert status_of(await world.cluster())["state"] == "suspended"
        await edit(world, suspend=False)
        assert await pods(world) == 0
        await edit(world, authOptions=None)
        await world.eventually(world.is_ready)
        assert await pods(world) == 3
