"""A definition that drops fields of RayJobs or RayCronJobs runs nothing twice and deletes nothing.

What the operator does not write meanwhile is whole again with the definition.
"""

from __future__ import annotations

from typing import Any

import pytest

from controller.ray.api import RAYJOBS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.cronjob import RayCronJobKind
from controller.ray.job import RayJobKind
from tests.integration.definitions import (
    RAYCRONJOBS_CRD,
    RAYJOBS_CRD,
    drop_fields,
    restore_definition,
)
from tests.integration.harness import World
from tests.integration.rays import Rays, forever
from tests.integration.test_cron_jobs import create, prepare
from tests.ray.dashboard.simulated import Course

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

JOB: dict[str, Any] = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 3600}


async def is_reported(rays: Rays, field: str) -> bool:
    return any(
        reason == "DefinitionIncomplete" and field in note and "manta crds" in note
        for reason, note in await rays.events()
    )


@pytest.mark.parametrize(
    "field",
    [
        "status",
        "status.jobDeploymentStatus",
        "status.rayClusterName",
        "status.jobId",
        "status.startTime",
        "spec.ttlSecondsAfterFinished",
        "spec.rayClusterSpec.workerGroupSpecs",
    ],
)
async def test_a_running_job_survives_a_definition_that_drops_a_field(rays: Rays, field: str):
    rays.ray.course = lambda _body: Course(running=30)
    operator = rays.start_operator()
    await rays.create(**JOB)
    before = await rays.reaches("Running")
    await rays.world.settle(10)  # no write is under way that would store what is read then
    clusters = await rays.clusters()
    await drop_fields(rays.world, field, name=RAYJOBS_CRD)
    await rays.world.eventually(lambda: is_reported(rays, field))
    await operator.kill()
    rays.start_operator()
    await rays.world.settle(60)
    assert (rays.ray.submissions(), await rays.clusters()) == (1, clusters)

    await restore_definition(rays.world, name=RAYJOBS_CRD)
    after = await rays.reaches("Complete")
    await rays.world.settle(60)
    assert (rays.ray.submissions(), await rays.clusters()) == (1, clusters)
    assert (after["jobId"], after["startTime"]) == (before["jobId"], before["startTime"])


async def test_a_status_that_lost_its_state_is_not_taken_for_that_of_a_new_job(rays: Rays):
    """As when an object is written before the schema of the new definition is published."""
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(**JOB)
    before = await rays.reaches("Running")
    await rays.world.settle(10)
    lost = {"status": {"jobDeploymentStatus": None}}
    namespace = rays.world.namespace
    await rays.world.user.merge_patch(RAYJOBS, namespace, "job", lost, subresource="status")
    await rays.world.settle(60)
    assert (rays.ray.submissions(), await rays.clusters()) == (1, [before["rayClusterName"]])
    assert any(reason == "StatusIncomplete" for reason, _ in await rays.events())

    rays.ray.course = lambda _body: Course()
    found = {"status": {"jobDeploymentStatus": "Running"}}
    await rays.world.user.merge_patch(RAYJOBS, namespace, "job", found, subresource="status")
    await rays.world.settle(20)
    assert (await rays.state(), rays.ray.submissions()) == ("Running", 1)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        (RAYCRONJOBS_CRD, "spec.suspend"),
        (RAYCRONJOBS_CRD, "spec.jobTemplate.suspend"),
        (RAYCRONJOBS_CRD, "status.lastScheduleTime"),
        (RAYCRONJOBS_CRD, "spec.concurrencyPolicy"),
        (RAYJOBS_CRD, "status.jobDeploymentStatus"),
    ],
)
async def test_a_cron_job_creates_nothing_by_a_definition_that_drops_a_field(
    world: World, name: str, field: str
):
    await prepare(world)
    world.start_operator(kinds=[RayCronJobKind(), RayJobKind()])
    await create(world, schedule="* * * * *", concurrencyPolicy="Forbid", suspend=True)
    await create(world, "other", schedule="* * * * *", concurrencyPolicy="Replace")
    await world.eventually(lambda: first_run(world), seconds=90)
    await world.settle(10)
    [run] = await runs(world)
    await drop_fields(world, field, name=name)
    await world.settle(300)
    assert await runs(world) == [run]

    await restore_definition(world, name=name)
    await world.settle(90)
    assert [each.startswith("other-") for each in await runs(world)] == [True]
    assert (await world.user.get(RAYCRONJOBS, world.namespace, "cron")).spec["suspend"] is True


async def runs(world: World) -> list[str]:
    return [each.metadata.name for each in (await world.user.list(RAYJOBS, world.namespace)).items]


async def first_run(world: World) -> bool:
    return len(await runs(world)) == 1
