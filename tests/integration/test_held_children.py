"""A finalizer of somebody else holds a child: that is said, and nothing is lost for it."""

from __future__ import annotations

import pytest

from controller.ray.api import RAYCLUSTERS
from tests.integration.definitions import (
    RAYJOBS_CRD,
    RAYSERVICES_CRD,
    drop_fields,
    restore_definition,
)
from tests.integration.harness import World
from tests.integration.rays import Rays
from tests.integration.rayservices import Services, service_manifest, with_image

pytestmark = pytest.mark.embedded_only

HOLD = {"metadata": {"finalizers": ["example.com/hold"]}}
KEPT = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 3600}


async def deleted_but_held(rays: Rays) -> str:
    """Run a job to its end, and delete its cluster, which a finalizer holds."""
    rays.start_operator()
    await rays.create(**KEPT)
    name = (await rays.reaches("Complete"))["rayClusterName"]
    await rays.world.settle(10)
    await rays.world.user.merge_patch(RAYCLUSTERS, rays.world.namespace, name, HOLD)
    await rays.world.user.delete(RAYCLUSTERS, rays.world.namespace, name)
    await rays.world.settle(5)
    return name


@pytest.mark.parametrize("field", ["jobDeploymentStatus", "rayClusterName"])
async def test_a_job_whose_cluster_is_held_keeps_what_a_definition_drops_for_a_while(
    rays: Rays, field: str
):
    await deleted_but_held(rays)
    before = (await rays.status())[field]
    await drop_fields(rays.world, f"status.{field}", name=RAYJOBS_CRD)
    await rays.world.settle(300)
    await restore_definition(rays.world, name=RAYJOBS_CRD)
    await rays.world.settle(60)
    assert (await rays.status())[field] == before


async def test_without_a_place_for_conditions_an_event_names_the_held_child_once(rays: Rays):
    await drop_fields(rays.world, "status.conditions", name=RAYJOBS_CRD)
    await deleted_but_held(rays)
    await rays.world.settle(600)
    told = [note for reason, note in await rays.events() if reason == "ChildHeld"]
    assert len(told) == 1
    assert "example.com/hold" in told[0]


async def test_a_service_whose_former_cluster_is_held_keeps_the_one_that_serves(world: World):
    services, manifest = Services(world), service_manifest()
    services.start_operator()
    await services.deployed(manifest)
    (old,) = await services.clusters()
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, old, HOLD)
    await services.edit(with_image(manifest, "rayproject/ray:2.99.0"))

    async def is_deleted() -> bool:
        found = await world.user.get(RAYCLUSTERS, world.namespace, old)
        return found.metadata.terminating

    await world.eventually(is_deleted, seconds=300)
    await world.settle(5)
    serving = await services.active()
    await drop_fields(world, "status.activeServiceStatus", name=RAYSERVICES_CRD)
    await world.settle(200)
    await restore_definition(world, name=RAYSERVICES_CRD)
    await world.settle(300)
    assert await services.active() == serving
    assert sorted(await services.clusters()) == sorted([old, serving])
