"""The example for spot capacity: what its comments promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.kube.errors import TooManyRequests
from controller.kube.resources import DISRUPTION_BUDGETS, PODS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.cluster import RayClusterKind
from controller.ray.dashboard import DashboardActors
from controller.ray.job import RayJobKind
from tests.integration.harness import embedded_world
from tests.integration.rays import Rays, submitter
from tests.integration.test_disrupted_jobs import announce, evict_head, runs
from tests.ray.dashboard.simulated import Course

EXAMPLE = Path(__file__).parents[2] / "examples" / "rayjob-spot.yaml"

pytestmark = pytest.mark.embedded_only


async def test_no_drain_ends_the_job_and_a_node_that_is_taken_back_costs_no_retry():
    async with embedded_world() as world:
        rays = Rays(world)
        await rays.open()
        actors = DashboardActors(rays.ray.connect, clock=world.loop, wall=world.wall, rng=world.rng)
        of_clusters = actors.for_controller(RayClusterKind.name)
        of_jobs = actors.for_controller(RayJobKind.name)
        clusters = RayClusterKind(dashboards=of_clusters, external_source=of_clusters)
        world.start_operator(kinds=[clusters, RayJobKind(of_jobs, of_jobs, rays.settings)])
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
