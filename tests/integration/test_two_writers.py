"""Another writer that changes back what the operator repairs costs little, and is named."""

from __future__ import annotations

import asyncio
import copy
from contextlib import suppress
from typing import Any

import pytest

from controller.apimachinery.patches import apply_merge_patch
from controller.kube.errors import KubeError
from controller.kube.resources import SERVICES, Resource
from controller.ray.api import RAYCLUSTERS
from tests.integration.definitions import (
    RAYJOBS_CRD,
    RAYSERVICES_CRD,
    drop_fields,
    restore_definition,
)
from tests.integration.harness import RunningOperator, World
from tests.integration.rays import Rays
from tests.integration.rayservices import Services, service_manifest, with_image
from tests.integration.test_failing_keys import begin, warnings

SERVICE = "example-head-svc"
RIVAL = "service-mesh"

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]


def fight(world: World, resource: Resource[Any], name: str, change: dict[str, Any]) -> None:
    """Have another controller set these fields again as soon as they differ."""
    rival = world.client(f"{RIVAL}/1.0")

    async def insist() -> None:
        while True:
            try:
                present = await rival.get_raw(resource, world.namespace, name)
                if apply_merge_patch(copy.deepcopy(present), change) != present:
                    await rival.merge_patch(resource, world.namespace, name, change)
            except KubeError:
                pass
            await asyncio.sleep(0.2)

    world.background(insist())


async def track_managers(world: World, resource: Resource[Any], name: str) -> None:
    """Apply an annotation, after which the embedded server too keeps `managedFields`."""
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "annotations": {"a": "b"}},
    }
    await world.user.request_json(
        "PATCH",
        resource.path(world.namespace, name),
        body=body,
        content_type="application/apply-patch+yaml",
        query={"fieldManager": "kubectl"},
    )


def writes(operator: RunningOperator, resource: str, name: str, since: int) -> int:
    return sum(
        entry.attributes.writes
        and entry.attributes.resource == resource
        and entry.attributes.name == name
        and entry.attributes.subresource != "status"
        for entry in operator.transport.journal.entries[since:]
    )


async def contested(world: World) -> str:
    return (await world.condition("FieldsContested"))["message"]


async def test_what_another_writer_deletes_is_created_with_back_off_and_it_is_said(world: World):
    operator = await begin(world, "cluster")
    await world.eventually(world.is_ready)
    rival = world.client(f"{RIVAL}/1.0")

    async def insist() -> None:
        while True:
            with suppress(KubeError):
                await rival.delete(SERVICES, world.namespace, SERVICE)
            await asyncio.sleep(0.2)

    since, before = len(operator.transport.journal.entries), set(world._background)
    world.background(insist())
    await world.settle(200)
    assert 3 <= writes(operator, "services", SERVICE, since) <= 12
    assert f"another writer keeps deleting Service {SERVICE}" in await contested(world)
    assert (await world.condition())["reason"] == "RepeatedlyDeleted"
    told = [note for reason, note in await warnings(world, "RayCluster") if "Contested" in reason]
    assert len(told) == 1
    for task in world._background - before:
        task.cancel()
    await world.settle(62)
    assert (await world.condition())["reason"] == "AllPodsReady"
    await world.settle(60)
    await rival.delete(SERVICES, world.namespace, SERVICE)
    await world.settle(2)
    assert await rival.get_raw(SERVICES, world.namespace, SERVICE), "it is not delayed any more"


NO_FINALIZERS, NO_ANNOTATIONS = (
    {"metadata": {each: None}} for each in ("finalizers", "annotations")
)


# -- a finalizer of somebody else holds a child: that is said, and nothing is lost for it ----------


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
