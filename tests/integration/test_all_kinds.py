"""The operator with every kind: it starts, it rests, and what is not served is not missed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from controller.command.kinds import KindSettings, kinds_of
from controller.kube.resources import CRDS
from controller.ray.api import RAYJOBS, FeatureGates
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.dashboard.actors import DashboardActors
from tests.integration.harness import OPERATOR, RunningOperator, World
from tests.integration.rays import Rays, forever, job_manifest
from tests.ray.dashboard.simulated import Course

TEN_MINUTES = 600.0

pytestmark = pytest.mark.embedded_only


def cron_job(name: str, schedule: str) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": name},
        "spec": {"schedule": schedule, "jobTemplate": job_manifest()["spec"]},
    }


def start(rays: Rays, gates: FeatureGates | None = None) -> RunningOperator:
    world = rays.world
    actors = DashboardActors(
        rays.ray.connect, clock=world.loop, wall=world.wall, rng=random.Random(1)
    )
    kinds = kinds_of(KindSettings.from_environment(gates, {}), actors)
    return world.start_operator(kinds=kinds)


def asked(world: World) -> dict[tuple[str, str], int]:
    """Requests of the operator so far, by verb and resource; watches left out."""
    assert world.server is not None
    return {
        (verb, resource): count
        for (agent, verb, resource), count in world.server.audit.requests.items()
        if agent == OPERATOR and verb != "watch"
    }


@pytest.mark.slow
async def test_with_every_kind_at_rest_nothing_is_written_and_nothing_listed(
    world: World, rays: Rays
):
    rays.ray.course = lambda body: forever() if "for-ever" in body["entrypoint"] else Course()
    start(rays)
    await world.create_cluster()
    await rays.create("done")
    await rays.create("running", entrypoint="for-ever")
    await world.user.create(RAYCRONJOBS, world.namespace, cron_job("yearly", "0 0 1 7 *"))
    await rays.reaches("Complete", "done")
    await rays.reaches("Running", "running")
    await world.eventually(world.is_ready)
    await world.settle(60)
    before = asked(world)
    await world.settle(TEN_MINUTES)
    assert await rays.state("running") == "Running"
    assert asked(world) == before


async def test_a_cron_job_makes_a_job_that_runs_on_a_cluster_to_its_end(world: World, rays: Rays):
    start(rays)
    await world.user.create(RAYCRONJOBS, world.namespace, cron_job("often", "*/5 * * * *"))

    async def completed() -> list[str]:
        found = await world.user.list(RAYJOBS, world.namespace)
        states = [job.status.get("jobDeploymentStatus") for job in found.items]
        return states if "Complete" in states else []

    await world.eventually(completed, seconds=600, pause=5)
    assert len(rays.ray.accepted) >= 1


async def test_without_its_gate_a_cron_job_makes_nothing_and_is_not_watched(
    world: World, rays: Rays
):
    operator = start(rays, FeatureGates({"RayCronJob": False}))
    await world.user.create(RAYCRONJOBS, world.namespace, cron_job("often", "*/5 * * * *"))
    await world.settle(TEN_MINUTES)
    assert not (await world.user.list(RAYJOBS, world.namespace)).items
    watched = {str(cache.scope.resource) for cache in operator.operator.caches.caches}
    assert "raycronjobs.ray.io" not in watched


async def test_where_only_rayclusters_are_defined_they_are_served(world: World):
    for kind in ("rayjobs.ray.io", "rayservices.ray.io", "raycronjobs.ray.io"):
        await world.user.delete(CRDS, "", kind)
    await world.settle(5)
    operator = start(Rays(world))
    await world.create_cluster()
    await world.eventually(world.is_ready)
    assert operator.running


async def test_a_job_that_another_operator_had_goes_on_without_a_pod_being_touched(
    world: World, rays: Rays
):
    rays.ray.course = lambda _body: Course(running=300)
    former = start(rays)
    await rays.create(submissionMode="K8sJobMode")
    await rays.reaches("Running")
    await world.eventually(lambda: rays.ray.accepted)
    await world.settle(30)
    await former.kill()
    ours = {"metadata": {"annotations": {"manta.dev/runs-on": None}}}
    await world.user.merge_patch(RAYJOBS, world.namespace, "job", ours)
    pods, submitted = set(world.journal.created), len(rays.ray.accepted)

    start(rays)
    await rays.reaches("Complete", seconds=600)
    assert set(world.journal.created) == pods
    assert len(rays.ray.accepted) == submitted == 1
