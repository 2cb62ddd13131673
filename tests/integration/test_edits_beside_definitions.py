"""An edit that comes together with a definition that drops fields deletes and changes nothing.

The watch that is open still brings it, and the schema that was read last is complete.
"""

from __future__ import annotations

import pytest

from controller.ray.api import RAYCLUSTERS
from tests.integration.definitions import (
    RAYJOBS_CRD,
    RAYSERVICES_CRD,
    drop_fields,
    restore_definition,
)
from tests.integration.fleets import Fleets
from tests.integration.harness import World, example_cluster
from tests.integration.rays import Rays
from tests.integration.rayservices import Services

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

FLEETS_CRD = "rayclusterfleets.manta.dev"


async def test_a_cluster_keeps_its_workers(world: World):
    world.start_operator()
    await world.create_cluster(replicas=3)
    await world.eventually(world.is_ready)
    await world.settle(60)
    await drop_fields(world, "spec.workerGroupSpecs")
    edit = {"spec": {"headGroupSpec": {"rayStartParams": {"num-cpus": "0"}}}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", edit)
    await world.settle(60)
    assert world.journal.marked == set()


@pytest.mark.parametrize("later", [0.1, 1.0, 2.1])
async def test_a_cluster_keeps_its_workers_also_if_the_definition_is_soon_put_back(
    world: World, later: float
):
    """What was dropped of the edit stays dropped."""
    world.start_operator()
    manifest = example_cluster(replicas=1)
    manifest["spec"]["workerGroupSpecs"][0] |= {"numOfHosts": 3, "minReplicas": 0}
    await world.user.create(RAYCLUSTERS, world.namespace, manifest)
    await world.eventually(world.is_ready)
    await world.settle(60)
    await drop_fields(world, "spec.workerGroupSpecs.numOfHosts")
    await world.settle(later)
    edit = {"spec": {"headGroupSpec": {"rayStartParams": {"num-cpus": "0"}}}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", edit)
    await world.settle(2.2 - later)
    await restore_definition(world)
    await world.settle(60)
    assert world.journal.marked == set()


async def test_a_cluster_is_scaled_down_a_moment_after_the_edit(world: World):
    world.start_operator()
    await world.create_cluster(replicas=3)
    await world.eventually(world.is_ready)
    await world.settle(60)
    await world.scale(1)
    await world.settle(1.2)
    assert len(world.journal.marked) == 2


async def test_the_cluster_of_a_service_is_not_replaced(world: World, services: Services):
    services.start_operator()
    await services.deployed()
    await world.settle(60)
    cluster = await services.active()
    path = "spec.rayClusterConfig.workerGroupSpecs"
    await drop_fields(world, path, name=RAYSERVICES_CRD)
    await services.patch(rayClusterDeletionDelaySeconds=30)
    await world.settle(120)
    assert world.journal.marked == set()
    assert await services.clusters() == [cluster]


async def test_a_finished_job_keeps_its_cluster(world: World, rays: Rays):
    rays.start_operator()
    await rays.create(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=3600)
    await rays.reaches("Complete")
    await world.settle(60)
    clusters = await rays.clusters()
    await drop_fields(world, "spec.ttlSecondsAfterFinished", name=RAYJOBS_CRD)
    await rays.patch(activeDeadlineSeconds=600)
    await world.settle(60)
    assert await rays.clusters() == clusters != []


async def test_a_suspended_job_is_not_started(world: World, rays: Rays):
    rays.start_operator()
    await rays.create(suspend=True, shutdownAfterJobFinishes=True)
    await rays.reaches("Suspended")
    await world.settle(60)
    await drop_fields(world, "spec.suspend", name=RAYJOBS_CRD)
    await rays.patch(activeDeadlineSeconds=600)
    await world.settle(60)
    assert (await rays.state(), await rays.clusters()) == ("Suspended", [])


async def test_a_fleet_keeps_its_copies(world: World, fleets: Fleets):
    fleets.start_operator()
    await fleets.create()
    await world.eventually(lambda: has_copies(fleets), seconds=900, pause=1)
    await world.settle(60)
    before = await fleets.clusters()
    await drop_fields(world, "spec.replicas", name=FLEETS_CRD)
    await fleets.patch(strategy={"maxSurge": 2})
    await world.settle(60)
    assert (await fleets.clusters()).keys() == before.keys()


async def has_copies(fleets: Fleets) -> bool:
    return (await fleets.condition("Ready"))[0] == "True"
