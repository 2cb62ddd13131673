"""Objects that do not become what their specs say fire their alerts, and no others do."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.command.kinds import KindSettings, kinds_of
from controller.command.operator import collect_objects
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES, FeatureGates
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.dashboard.metrics import DashboardCollector
from devcluster.nodes import NodeSettings
from tests.chart.prometheus import needs_promtool
from tests.chart.provoked import Scrapes, firing, start
from tests.integration.fleets import fleet_manifest
from tests.integration.harness import World, embedded_world, example_cluster
from tests.integration.rays import Rays, job_manifest
from tests.integration.rayservices import service_manifest
from tests.integration.rolling import rolling_manifest
from tests.integration.test_disrupted_jobs import evict_head, runs
from tests.ray.dashboard.simulated import Course

pytestmark = [pytest.mark.slow, needs_promtool]

NEVER = 1e7
BROKEN = {"annotations": {"sim.manta.dev/outcome": "never-ready"}}
GATES = FeatureGates({"RayClusterFleet": True})
NOT_READY = {
    "RayClusterNotReady",
    "RayClusterFleetNotReady",
    "RayJobNotStarted",
    "RayServiceNotReady",
    "MantaDashboardsUnreachable",
}
"""No head is ready, so no dashboard answers either."""


class Watched:
    """A world whose operator of all kinds of Ray is scraped."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rays = Rays(world)
        self.scrapes = Scrapes()
        self.registry = CollectorRegistry()

    async def start(self) -> None:
        await self.rays.open()
        loop, wall = self.world.loop, self.world.wall
        actors = DashboardActors(self.rays.ray.connect, clock=loop, wall=wall, rng=random.Random(1))
        kinds = kinds_of(KindSettings.from_environment(GATES, {}), actors)
        self.registry.register(DashboardCollector(actors.statistics))
        running = start(self.world, *kinds, registry=self.registry)
        collect_objects(running.operator, self.registry, wall)

    async def create(self, resource: Any, manifest: dict[str, Any]) -> None:
        await self.world.user.create(resource, self.world.namespace, manifest)

    async def follow(self, minutes: int) -> None:
        await self.scrapes.follow(self.registry, minutes=minutes)


@asynccontextmanager
async def watched(*, ready_delay: float = 1.0) -> AsyncIterator[Watched]:
    async with embedded_world(nodes=NodeSettings(ready_delay=ready_delay)) as world:
        seen = Watched(world)
        await seen.start()
        yield seen


async def create_one_of_each(seen: Watched) -> None:
    await seen.create(RAYCLUSTERS, example_cluster("cluster"))
    await seen.create(RAYCLUSTERFLEETS, fleet_manifest("fleet", 1))
    await seen.create(RAYJOBS, job_manifest("job"))
    await seen.create(RAYSERVICES, service_manifest("service"))


async def test_objects_whose_pods_are_never_ready_fire_their_alerts(tmp_path: Path):
    async with watched(ready_delay=NEVER) as seen:
        await create_one_of_each(seen)
        await seen.follow(60)
    fired = firing(tmp_path, seen.scrapes)
    assert fired.keys() == NOT_READY
    names = {alert: {each.get("name", "") for each in fired[alert]} for alert in NOT_READY}
    assert names["RayJobNotStarted"] == {"job"}
    assert names["RayServiceNotReady"] == {"service"}
    assert names["RayClusterFleetNotReady"] == {"fleet"}
    assert "cluster" in names["RayClusterNotReady"]
    assert {each["namespace"] for each in fired["RayJobNotStarted"]} == {seen.world.namespace}


async def test_objects_that_are_ready_fire_nothing(tmp_path: Path):
    async with watched() as seen:
        await seen.create(RAYCLUSTERS, example_cluster("cluster"))
        await seen.create(RAYCLUSTERFLEETS, fleet_manifest("fleet", 1))
        await seen.create(RAYJOBS, job_manifest("job"))
        await seen.follow(60)
    assert firing(tmp_path, seen.scrapes).keys() == set()


async def test_upgrades_that_make_no_progress_fire(tmp_path: Path):
    cluster = rolling_manifest(2, progressDeadlineSeconds=60)
    fleet = fleet_manifest("fleet", 2, progressDeadlineSeconds=60)
    service = service_manifest("service")
    async with watched() as seen:
        await seen.create(RAYCLUSTERS, cluster)
        await seen.create(RAYCLUSTERFLEETS, fleet)
        await seen.create(RAYSERVICES, service)
        await seen.follow(10)
        cluster["spec"]["workerGroupSpecs"][0]["template"]["metadata"] = BROKEN
        for within in (fleet["spec"]["template"]["spec"], service["spec"]["rayClusterConfig"]):
            within["headGroupSpec"]["template"]["metadata"] = BROKEN
            container = within["headGroupSpec"]["template"]["spec"]["containers"][0]
            container["image"] = "rayproject/ray:2.53.0"
        for resource, manifest in (
            (RAYCLUSTERS, cluster),
            (RAYCLUSTERFLEETS, fleet),
            (RAYSERVICES, service),
        ):
            name, spec = manifest["metadata"]["name"], {"spec": manifest["spec"]}
            await seen.world.user.merge_patch(resource, seen.world.namespace, name, spec)
        await seen.follow(90)
    fired = firing(tmp_path, seen.scrapes)
    stuck = {"RayClusterUpgradeStuck", "RayClusterFleetUpgradeStuck", "RayServiceUpgradeStuck"}
    assert {alert: fired.get(alert, [{}])[0].get("name") for alert in stuck} == {
        "RayClusterUpgradeStuck": "example",
        "RayClusterFleetUpgradeStuck": "fleet",
        "RayServiceUpgradeStuck": "service",
    }


async def test_gpus_that_nobody_uses_for_an_hour_fire(tmp_path: Path):
    cluster = example_cluster("cluster")
    cluster["spec"]["idleTerminationOptions"] = {"timeoutSeconds": 86400}
    (container,) = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    async with watched() as seen:
        await seen.create(RAYCLUSTERS, cluster)
        await seen.follow(75)
    (unused,) = firing(tmp_path, seen.scrapes)["RayClusterGPUsUnused"]
    assert unused["name"] == "cluster"


async def test_a_job_whose_head_is_taken_three_times_fires_until_it_ends(tmp_path: Path):
    async with watched() as seen:
        seen.rays.ray.course = lambda _body: Course(running=NEVER)
        await seen.create(RAYJOBS, job_manifest("job", disruptionBackoffLimit=5))
        for number in (1, 2, 3):
            await runs(seen.rays, number=number)
            await evict_head(seen.rays)
        await seen.follow(20)
    (fired,) = firing(tmp_path, seen.scrapes)["RayJobDisrupted"]
    assert fired["name"] == "job"
