"""An edit that an incomplete definition has cut is held, also once that is complete again.

What was dropped of it stays dropped: what is left asks for fewer copies, for another cluster, for a
job that is not suspended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controller.kaito.api.definitions.crds import workspace_definition
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.resources import CRDS, PODS
from controller.ray.api import RAYJOBS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.cronjob import RayCronJobKind
from controller.ray.job import RayJobKind
from controller.runtime.reconcile.definitions.cut_edits import CONFIRM_GENERATION, PRUNED_GENERATION
from tests.integration.definitions import (
    RAYCRONJOBS_CRD,
    RAYJOBS_CRD,
    RAYSERVICES_CRD,
    drop_fields,
    put_in_place,
    restore_definition,
)
from tests.integration.fleets import Fleets
from tests.integration.inferencesets import served
from tests.integration.rays import Rays
from tests.integration.rayservices import Services, reason, service_manifest
from tests.integration.test_cron_jobs import create as create_cron_job
from tests.integration.test_cron_jobs import prepare
from tests.integration.test_edits_beside_definitions import FLEETS_CRD, has_copies
from tests.integration.workspaces import opened
from tests.kaito.support import inference
from tests.ray.kuberay_values import foreign_values

if TYPE_CHECKING:
    from controller.kube.resources import Resource
    from tests.integration.harness import World

pytestmark = [pytest.mark.embedded_only, pytest.mark.timeout(120)]


async def notes(world: World, kind: str, name: str) -> list[str]:
    found = await world.events_about(kind, name)
    return [note for reason, note in found if reason == "SpecPruned"]


async def confirm(world: World, resource: Resource[Any], name: str) -> None:
    obj = await world.user.get(resource, world.namespace, name)
    annotations = {CONFIRM_GENERATION: str(obj.metadata.generation)}
    patch = {"metadata": {"annotations": annotations}}
    await world.user.merge_patch(resource, world.namespace, name, patch)


@pytest.mark.parametrize("restart", ["never", "meanwhile", "while it is put back", "afterwards"])
async def test_a_fleet_keeps_its_copies(world: World, restart: str):
    fleets = Fleets(world)
    operator = fleets.start_operator()
    await fleets.create()
    await world.eventually(lambda: has_copies(fleets), seconds=900, pause=1)
    await world.settle(60)
    before = await fleets.clusters()
    await drop_fields(world, "spec.replicas", name=FLEETS_CRD)
    await world.settle(20)
    await fleets.patch(strategy={"maxSurge": 2})
    await world.settle(20)
    if restart == "meanwhile":
        await operator.kill()
        operator = fleets.start_operator()
        await world.settle(20)
    if restart == "while it is put back":
        await operator.kill()
    await restore_definition(world, name=FLEETS_CRD)
    await world.settle(5)
    if restart == "while it is put back":
        operator = fleets.start_operator()
    await world.settle(60)
    if restart == "afterwards":
        await operator.kill()
        fleets.start_operator()
        await world.settle(60)
    assert (await fleets.clusters()).keys() == before.keys()
    status, why, message = await fleets.condition("Ready")
    assert (status, why) == ("False", "SpecPruned")
    assert "spec.replicas" in message
    assert "Apply the manifest again" in message
    assert len(await notes(world, "RayClusterFleet", "fleet")) == 1

    await fleets.patch(replicas=3)
    await world.eventually(lambda: has_copies(fleets), seconds=60)
    assert (await fleets.clusters()).keys() == before.keys()


@pytest.mark.parametrize("later", [0.1, 1.0, 2.1])
async def test_a_fleet_keeps_its_copies_also_if_the_definition_is_soon_put_back(
    world: World, later: float
):
    fleets = Fleets(world)
    fleets.start_operator()
    await fleets.create()
    await world.eventually(lambda: has_copies(fleets), seconds=900, pause=1)
    await world.settle(60)
    before = await fleets.clusters()
    await drop_fields(world, "spec.replicas", name=FLEETS_CRD)
    await world.settle(later)
    await fleets.patch(strategy={"maxSurge": 2})
    await world.settle(2.2 - later)
    await restore_definition(world, name=FLEETS_CRD)
    await world.settle(60)
    assert (await fleets.clusters()).keys() == before.keys()


async def test_what_nobody_has_edited_goes_on_by_itself(world: World):
    fleets = Fleets(world)
    fleets.start_operator()
    await fleets.create()
    await world.eventually(lambda: has_copies(fleets), seconds=900, pause=1)
    await world.settle(60)
    await drop_fields(world, "spec.replicas", name=FLEETS_CRD)
    await world.settle(60)
    await restore_definition(world, name=FLEETS_CRD)
    await world.settle(60)
    fleet = await fleets.fleet()
    assert PRUNED_GENERATION not in (fleet.metadata.annotations or {})
    await fleets.scale(1)
    await world.eventually(lambda: has_one(fleets), seconds=60)


async def has_one(fleets: Fleets) -> bool:
    return len(await fleets.clusters()) == 1


async def test_a_confirmed_edit_is_carried_out(world: World):
    fleets = Fleets(world)
    fleets.start_operator()
    await fleets.create()
    await world.eventually(lambda: has_copies(fleets), seconds=900, pause=1)
    await world.settle(60)
    await drop_fields(world, "spec.replicas", name=FLEETS_CRD)
    await world.settle(20)
    await fleets.patch(strategy={"maxSurge": 2})
    await world.settle(20)
    await restore_definition(world, name=FLEETS_CRD)
    await world.settle(20)
    assert len(await fleets.clusters()) == 3
    generation = (await fleets.fleet()).metadata.generation
    [note] = await notes(world, "RayClusterFleet", "fleet")
    assert note.endswith(f"fleet --overwrite {CONFIRM_GENERATION}={generation}")
    await confirm(world, RAYCLUSTERFLEETS, "fleet")
    await world.eventually(lambda: has_one(fleets), seconds=60)


async def test_a_service_keeps_its_cluster(world: World):
    services = Services(world)
    operator = services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=0)
    await services.deployed(manifest)
    await world.settle(60)
    cluster = await services.active()
    path = "spec.rayClusterConfig.workerGroupSpecs"
    await drop_fields(world, path, name=RAYSERVICES_CRD)
    await world.settle(20)
    await services.patch(rayClusterDeletionDelaySeconds=30)
    await world.settle(20)
    await restore_definition(world, name=RAYSERVICES_CRD)
    await world.settle(60)
    await operator.kill()
    services.start_operator()
    await world.settle(120)
    assert world.journal.marked == set()
    assert await services.clusters() == [cluster]
    assert await services.selected() == cluster
    held = await services.status()
    assert list(foreign_values("RayService", held)) == []
    assert reason(held, "Ready") == "ValidationFailed"
    [note] = await notes(world, "RayService", "svc")
    assert path in note

    await services.edit(manifest)
    await world.eventually(services.is_ready, seconds=60)
    assert await services.clusters() == [cluster]


async def test_the_service_whose_edit_is_held_goes_on_serving(world: World):
    """Its config is put on Ray again after Ray has lost it."""
    services = Services(world)
    services.start_operator()
    await services.deployed()
    await world.settle(60)
    cluster = await services.active()
    await drop_fields(world, "spec.upgradeStrategy", name=RAYSERVICES_CRD)
    await world.settle(20)
    await services.patch(rayClusterDeletionDelaySeconds=30)
    await world.settle(20)
    await restore_definition(world, name=RAYSERVICES_CRD)
    await world.settle(60)
    puts = len(services.puts())
    [head] = services.heads()
    await world.user.delete(PODS, world.namespace, head.metadata.name)
    await world.eventually(lambda: len(services.puts()) > puts, seconds=180)
    assert await services.clusters() == [cluster]


async def test_a_suspended_job_is_not_started(world: World):
    rays = Rays(world)
    await rays.open()
    operator = rays.start_operator()
    await rays.create(suspend=True, shutdownAfterJobFinishes=True)
    await rays.reaches("Suspended")
    await world.settle(60)
    await drop_fields(world, "spec.suspend", name=RAYJOBS_CRD)
    await world.settle(20)
    await rays.patch(activeDeadlineSeconds=600)
    await world.settle(20)
    await restore_definition(world, name=RAYJOBS_CRD)
    await world.settle(60)
    await operator.kill()
    rays.start_operator()
    await world.settle(60)
    assert (await rays.state(), await rays.clusters()) == ("Suspended", [])
    ready = reason(await rays.status(), "Ready")
    assert ready == "SpecPruned"
    [note] = await notes(world, "RayJob", "job")
    assert "spec.suspend" in note
    await confirm(world, RAYJOBS, "job")
    await rays.reaches("Complete")
    assert reason(await rays.status(), "Ready") != "SpecPruned"


async def test_a_finished_job_keeps_its_cluster(world: World):
    rays = Rays(world)
    await rays.open()
    rays.start_operator()
    await rays.create(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=3600)
    await rays.reaches("Complete")
    await world.settle(60)
    clusters = await rays.clusters()
    await drop_fields(world, "spec.ttlSecondsAfterFinished", name=RAYJOBS_CRD)
    await world.settle(20)
    await rays.patch(activeDeadlineSeconds=600)
    await world.settle(20)
    await restore_definition(world, name=RAYJOBS_CRD)
    await world.settle(60)
    assert await rays.clusters() == clusters != []
    assert reason(await rays.status(), "CleanedUp") == "SpecPruned"
    await rays.patch(ttlSecondsAfterFinished=1)
    await world.eventually(lambda: has_none(rays), seconds=60)
    assert reason(await rays.status(), "CleanedUp") == ""


async def has_none(rays: Rays) -> bool:
    return await rays.clusters() == []


async def test_a_job_that_was_created_meanwhile_is_not_started(world: World):
    rays = Rays(world)
    await rays.open()
    rays.start_operator()
    await drop_fields(world, "spec.suspend", name=RAYJOBS_CRD)
    await world.settle(20)
    await rays.create(suspend=True, shutdownAfterJobFinishes=True)
    await world.settle(20)
    await restore_definition(world, name=RAYJOBS_CRD)
    await world.settle(60)
    assert await rays.clusters() == []
    await rays.patch(suspend=True)
    await rays.reaches("Suspended")


async def test_a_suspended_cron_job_makes_no_jobs(world: World):
    await prepare(world)
    world.start_operator(kinds=[RayCronJobKind(), RayJobKind()])
    await create_cron_job(world, schedule="* * * * *", suspend=True)
    await world.settle(60)
    await drop_fields(world, "spec.suspend", name=RAYCRONJOBS_CRD)
    await world.settle(20)
    patch = {"spec": {"successfulJobsHistoryLimit": 1}}
    await world.user.merge_patch(RAYCRONJOBS, world.namespace, "cron", patch)
    await world.settle(20)
    await restore_definition(world, name=RAYCRONJOBS_CRD)
    await world.settle(300)
    assert (await world.user.list(RAYJOBS, world.namespace)).items == []
    cron = await world.user.get(RAYCRONJOBS, world.namespace, "cron")
    assert reason(cron.status, "Ready") == "SpecPruned"
    assert len(await notes(world, "RayCronJob", "cron")) == 1
    await confirm(world, RAYCRONJOBS, "cron")
    await world.settle(90)
    assert (await world.user.list(RAYJOBS, world.namespace)).items != []


async def test_a_workspace_keeps_its_server_and_its_claims(world: World):
    async with opened(world) as spaces:
        name = str(WORKSPACES)
        adapter = {"source": {"name": "a", "image": "example.com/adapter:1"}}
        operator = spaces.start_operator()
        await spaces.create(inference=inference(adapters=[adapter]))
        await spaces.has_nodes()
        await world.settle(60)
        before = await spaces.server()
        await drop_fields(world, "inference.adapters", name=name)
        await world.settle(20)
        patch = {"resource": {"preferredNodes": ["node-of-mine"]}}
        await world.user.merge_patch(WORKSPACES, world.namespace, "phi", patch)
        await world.settle(20)
        await put_in_place(world, workspace_definition())
        await world.settle(60)
        await operator.kill()
        spaces.start_operator()
        await world.settle(60)
        assert (spaces.referee.created["phi"], spaces.referee.deleted["phi"]) == (1, 0)
        assert await spaces.server() == before
        assert (await spaces.condition("ResourceReady"))[:2] == ("False", "SpecPruned")
        [note] = await notes(world, "Workspace", "phi")
        assert "inference.adapters" in note
        await spaces.delete()
        await world.eventually(spaces.is_gone)


@pytest.mark.parametrize("restart", [False, True])
async def test_an_inference_set_keeps_its_workspaces(world: World, restart: bool):
    async with served(world) as sets:
        operator = sets.start_operator()
        await sets.create(replicas=3)
        await sets.serves(3)
        await world.settle(60)
        whole = await world.user.get_raw(CRDS, "", str(INFERENCE_SETS))
        await drop_fields(world, "spec.replicas", name=str(INFERENCE_SETS))
        await world.settle(20)
        labels = {"labelSelector": {"matchLabels": {"apps": "models", "more": "x"}}}
        patch = {"spec": labels}
        await world.user.merge_patch(INFERENCE_SETS, world.namespace, "models", patch)
        await world.settle(20)
        await put_in_place(world, whole)
        await world.settle(60)
        if restart:
            await operator.kill()
            sets.start_operator()
            await world.settle(60)
        assert (sets.referee.created, sets.referee.deleted) == (3, 0)
        assert (await sets.condition())[:2] == ("False", "SpecPruned")
        [note] = await notes(world, "InferenceSet", "models")
        assert "spec.replicas" in note
        await sets.scale(3)
        await sets.serves(3)
        assert (sets.referee.created, sets.referee.deleted) == (3, 0)
