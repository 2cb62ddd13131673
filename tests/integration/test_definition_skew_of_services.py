"""A definition that drops fields of RayServices replaces no cluster and changes no config.

What the operator does not write meanwhile is whole again with the definition.
"""

from __future__ import annotations

import pytest

from controller.ray.api import RAYSERVICES
from tests.integration.definitions import (
    RAYCLUSTERS_CRD,
    RAYSERVICES_CRD,
    drop_fields,
    restore_definition,
)
from tests.integration.harness import World
from tests.integration.rayservices import Services, serve_config, service_manifest, with_image
from tests.integration.test_rayservices import greeting

pytestmark = [pytest.mark.embedded_only, pytest.mark.timeout(180)]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        (RAYSERVICES_CRD, "status.activeServiceStatus.rayClusterName"),
        (RAYSERVICES_CRD, "spec.serveConfigV2"),
        (RAYCLUSTERS_CRD, "spec.workerGroupSpecs"),
        *(
            pytest.param(RAYSERVICES_CRD, field, marks=pytest.mark.slow)
            for field in (
                "status",
                "status.activeServiceStatus",
                "status.conditions",
                "status.observedGeneration",
                "spec.rayClusterConfig.workerGroupSpecs",
                "spec.rayClusterConfig.enableInTreeAutoscaling",
            )
        ),
    ],
)
async def test_what_serves_survives_a_definition_that_drops_a_field(
    world: World, name: str, field: str
):
    services = Services(world)
    operator = services.start_operator()
    await services.deployed(service_manifest(rayClusterDeletionDelaySeconds=0))
    await world.settle(10)  # no write is under way that would store what is read then
    cluster = await services.active()
    await drop_fields(world, field, name=name)

    async def is_reported() -> bool:
        return any(
            reason == "DefinitionIncomplete" and field in note and "manta crds" in note
            for reason, note in await world.events_about("RayService", "svc")
        )

    await world.eventually(is_reported)
    await operator.kill()
    services.start_operator()
    await world.settle(120)
    serve = services.serve_of(cluster)
    assert [greeting(put) for put in serve.puts] == ["hi"]
    assert await services.clusters() == [cluster]
    assert await services.selected() == cluster

    await restore_definition(world, name=name)
    await world.settle(60)
    await services.patch(serveConfigV2=serve_config("hello"))
    await world.eventually(lambda: len(serve.puts) == 2, seconds=60)
    assert [greeting(put) for put in serve.puts] == ["hi", "hello"]
    assert await services.clusters() == [await services.active()] == [cluster]


async def test_only_an_edit_asks_for_a_new_cluster_not_a_definition_that_drops_more_or_less(
    world: World,
):
    services = Services(world)
    services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=0)
    manifest["spec"]["rayClusterConfig"]["headGroupSpec"]["serviceType"] = "NodePort"
    await services.deployed(manifest)
    await world.settle(10)
    cluster = await services.active()
    field = "spec.rayClusterConfig.headGroupSpec.serviceType"
    await drop_fields(world, field, name=RAYSERVICES_CRD)
    await world.settle(60)
    await services.patch(serveConfigV2=serve_config("hello"))
    await world.eventually(lambda: len(services.serve_of(cluster).puts) == 2, seconds=60)
    await restore_definition(world, name=RAYSERVICES_CRD)
    await world.settle(60)
    assert await services.clusters() == [await services.active()] == [cluster]
    await services.edit(with_image(manifest, "rayproject/ray:2.53.0"))
    await services.taken_over(cluster)


async def test_a_suspended_service_is_not_resumed_by_a_definition_without_suspend(world: World):
    services = Services(world)
    services.start_operator()
    await services.create(service_manifest(suspend=True))
    await world.settle(20)
    await drop_fields(world, "spec.suspend", name=RAYSERVICES_CRD)
    await world.settle(60)
    assert await services.clusters() == []
    await restore_definition(world, name=RAYSERVICES_CRD)
    await world.settle(60)
    assert await services.clusters() == []
    await services.patch(suspend=False)
    await services.serving()


async def test_a_deleted_service_goes_whatever_its_definition_lacks(world: World):
    services = Services(world)
    services.start_operator()
    await services.deployed()
    await drop_fields(world, "status.activeServiceStatus", name=RAYSERVICES_CRD)
    await world.settle(20)
    await world.user.delete(RAYSERVICES, world.namespace, "svc")
    await world.eventually(lambda: not world.journal.present, seconds=60)
    assert await services.clusters() == []
