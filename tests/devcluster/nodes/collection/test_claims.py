"""Protection of volume claims against the embedded API server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from controller.devcluster.nodes.pods import PODS
from controller.kube.resources import CLAIMS

if TYPE_CHECKING:
    from conftest import World


async def create_claim(world: World) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}}
    await world.user.create(CLAIMS, "default", body | {"spec": spec})


async def test_a_deleted_claim_goes_when_the_last_pod_that_uses_it_has_gone(world: World) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    container = {"name": "m", "image": "x"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    async with world.nodes(termination_delay=1.0):
        await create_claim(world)
        await world.user.create(
            PODS, "default", body | {"spec": {"containers": [container], "volumes": [volume]}}
        )
        await asyncio.sleep(5)
        await world.user.delete(CLAIMS, "default", "c")
        await asyncio.sleep(10)
        assert not await world.is_gone(CLAIMS, "c", "default")
        await world.user.delete(PODS, "default", "p")
        await asyncio.sleep(5)
        assert await world.is_gone(CLAIMS, "c", "default")


async def test_a_claim_that_nobody_deleted_keeps_its_finalizer(world: World) -> None:
    async with world.nodes():
        await create_claim(world)
        await asyncio.sleep(5)
        claim = await world.user.get_raw(CLAIMS, "default", "c")
        assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
