"""RayJobs whose heads others take away: such attempts do not count, up to a limit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.kube.errors import TooManyRequests
from controller.kube.resources import DISRUPTION_BUDGETS, PODS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.cluster import RayClusterKind
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.job import RayJobKind
from tests.integration.harness import embedded_world
from tests.integration.rays import Rays, submitter
from tests.ray.dashboard.simulated import Course

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]


@asynccontextmanager
async def running_job(*, seconds: float = 300, **spec: Any) -> AsyncIterator[Rays]:
    """A RayJob that runs for so long on each of its heads."""
    async with embedded_world() as world:
        rays = Rays(world)
        await rays.open()
        rays.start_operator()
        rays.ray.course = lambda _body: Course(running=seconds)
        await rays.create(**spec)
        await runs(rays)
        yield rays


async def runs(rays: Rays, *, number: int = 1, name: str = "job") -> None:
    """Wait until Ray runs the attempt of this number."""

    async def reached() -> bool:
        status = await rays.status(name)
        attempts = status.get("attempts", ())
        return status.get("jobStatus") == "RUNNING" and attempts[-1]["number"] == number

    await rays.world.eventually(reached, seconds=300)


async def evict_head(rays: Rays) -> None:
    (pod,) = (each for each in rays.heads() if not each.metadata.terminating)
    path = f"{PODS.path(rays.world.namespace, pod.metadata.name)}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.metadata.name}}
    await rays.world.user.request_json("POST", path, body=body)


@pytest.mark.parametrize("mode", ["HTTPMode", "K8sJobMode"])
async def test_a_job_whose_head_is_evicted_runs_again_and_the_attempt_does_not_count(mode: str):
    async with running_job(submissionMode=mode, disruptionBackoffLimit=2) as rays:
        await evict_head(rays)
        await runs(rays, number=2)
        status = await rays.reaches("Complete", seconds=400)
        assert (status["failed"], status["disrupted"]) == (1, 1)
        assert status["attempts"][0]["disruption"] == "EvictionByEvictionAPI"
        ((_, note),) = (each for each in await rays.events() if each[0] == "RetryingRayJob")
        assert "lost its head to a disruption (EvictionByEvictionAPI)" in note
        assert "1 of 2 that spec.disruptionBackoffLimit allows" in note


async def test_without_the_field_an_evicted_head_counts_as_with_kuberay():
    async with running_job() as rays:
        await evict_head(rays)
        status = await rays.reaches("Failed", seconds=300)
        assert status["failed"] == 1
        assert status.get("disrupted", 0) == 0
        assert "manta.dev/disrupted" not in ((await rays.job()).metadata.annotations or {})


async def test_endless_evictions_end_with_the_number_of_attempts_that_they_took():
    async with running_job(disruptionBackoffLimit=2, backoffLimit=1) as rays:
        for number in (1, 2, 3):
            await runs(rays, number=number)
            await evict_head(rays)
        await runs(rays, number=4)  # the third one counted
        await evict_head(rays)
        status = await rays.reaches("Failed", seconds=300)
        assert (status["failed"], status["disrupted"]) == (4, 2)
        used_up = "as in 2 attempts before: spec.disruptionBackoffLimit is used up"
        assert used_up in status["message"]


async def test_an_operator_that_was_away_when_the_pod_went_still_knows_why():
    async with embedded_world() as world:
        rays = Rays(world)
        await rays.open()
        operator = rays.start_operator()
        rays.ray.course = lambda _body: Course(running=900)
        await rays.create(disruptionBackoffLimit=1)
        await runs(rays)
        await evict_head(rays)
        await world.settle(2)
        await operator.kill()
        await world.settle(120)
        rays.start_operator()
        await runs(rays, number=2)
        assert (await rays.status())["disrupted"] == 1


async def announce(rays: Rays, pod: str, status: str) -> None:
    """Tell of a disruption as the scheduler does before it preempts a pod."""
    user, namespace = rays.world.user, rays.world.namespace
    raw = await user.get_raw(PODS, namespace, pod)
    kept = [each for each in raw["status"]["conditions"] if each["type"] != "DisruptionTarget"]
    target = {"type": "DisruptionTarget", "status": status, "reason": "PreemptionByScheduler"}
    change = {"status": {"conditions": [*kept, target]}}
    await user.merge_patch(PODS, namespace, pod, change, subresource="status")


# -- the example for spot capacity: what its comments promise --------------------------------------


EXAMPLE = Path(__file__).parents[2] / "examples" / "rayjob-spot.yaml"


async def test_no_drain_ends_the_job_and_a_node_that_is_taken_back_costs_no_retry():
    async with embedded_world() as world:
        rays = Rays(world)
        await rays.open()
        actors = DashboardActors(rays.ray.connect, clock=world.loop, wall=world.wall, rng=world.rng)
        of_clusters = actors.for_controller(RayClusterKind.name)
        of_jobs = actors.for_controller(RayJobKind.name)
        clusters = RayClusterKind(dashboards=of_clusters, external_source=of_clusters)
        world.start_operator(kinds=[clusters, RayJobKind(rays.settings, of_jobs, of_jobs)])
        body: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
        body["spec"]["submitterPodTemplate"] = submitter()
        rays.ray.course = lambda _body: Course(running=300)
        await world.user.create(RAYJOBS, world.namespace, body)
        await runs(rays, name="spot")

        async def are_made() -> bool:
            path = DISRUPTION_BUDGETS.path(world.namespace)
            listed = await world.user.request_json("GET", path)
            return sorted(each["spec"]["minAvailable"] for each in listed["items"]) == [1, 3]

        await world.eventually(are_made)
        with pytest.raises(TooManyRequests):
            await evict_head(rays)
        (head,) = rays.heads()
        await announce(rays, head.metadata.name, "True")  # the kubelet of a node that goes
        await world.user.delete(PODS, world.namespace, head.metadata.name)
        await runs(rays, number=2, name="spot")
        status = await rays.reaches("Complete", "spot", seconds=600)
        assert (status["failed"], status["disrupted"]) == (1, 1)
        await world.settle(60)
        rest = await world.user.request_json("GET", DISRUPTION_BUDGETS.path(world.namespace))
        assert rest["items"] == []
