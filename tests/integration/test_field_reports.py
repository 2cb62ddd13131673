"""Manifests of public reports as a whole: an operator of all kinds, and any API server.

They lie beside the project; each test says if its file is missing.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from controller.command.kinds import KindSettings, kinds_of
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.ray.dashboard.actors import DashboardActors
from tests.integration.rays import Rays, forever
from tests.ray.dashboard.simulated import Course
from tests.samples import case

pytestmark = pytest.mark.timeout(300)

Json = dict[str, Any]


class Raw(KubeObject, frozen=True):
    """An object of any kind as plain data."""

    spec: Any = None
    status: Any = None


def resource_of(manifest: Json) -> Resource[Raw]:
    group, _, version = manifest["apiVersion"].rpartition("/")
    kind: str = manifest["kind"]
    return Resource(group, version, f"{kind.lower()}s", kind, Raw)


class Reports:
    """What users apply, and what they read of it.

    Args:
        rays: the world, with a simulated Ray for every head.
    """

    def __init__(self, rays: Rays) -> None:
        self.rays, self.world = rays, rays.world
        actors = DashboardActors(
            rays.ray.connect, clock=self.world.loop, wall=self.world.wall, rng=random.Random(1)
        )
        kinds = kinds_of(KindSettings.from_environment(None, {}), actors)
        self.world.start_operator(kinds=kinds)

    async def apply(self, *manifests: Json) -> None:
        """Create them as `kubectl apply` does, which has unknown fields refused."""
        for manifest in manifests:
            path = resource_of(manifest).path(self.world.namespace)
            await self.world.user.request_json(
                "POST", path, query={"fieldValidation": "Strict"}, body=manifest
            )

    async def edit(self, manifest: Json, patch: Json) -> None:
        name: str = manifest["metadata"]["name"]
        at = resource_of(manifest), self.world.namespace, name
        await self.world.user.merge_patch(*at, patch)

    async def get(self, manifest: Json) -> Raw:
        name: str = manifest["metadata"]["name"]
        return await self.world.user.get(resource_of(manifest), self.world.namespace, name)

    async def says(self, manifest: Json, *words: str, seconds: float = 90) -> Json:
        """Wait until the status says all of these words; the status then."""

        async def told() -> bool:
            text = json.dumps((await self.get(manifest)).status, ensure_ascii=False)
            return all(word in text for word in words)

        try:
            await self.world.eventually(told, seconds=seconds, pause=0.5)
        except AssertionError:
            found = (await self.get(manifest)).status
            raise AssertionError(f"no {words} within {seconds} s: {found}") from None
        return (await self.get(manifest)).status

    async def reaches(self, manifest: Json, state: str, *, seconds: float = 90) -> Json:
        field = "jobDeploymentStatus" if manifest["kind"] == "RayJob" else "state"
        return await self.says(manifest, f'"{field}": "{state}"', seconds=seconds)

    async def notes(self, manifest: Json) -> str:
        name: str = manifest["metadata"]["name"]
        return str(await self.world.events_about(manifest["kind"], name))


@pytest.fixture
async def reports(rays: Rays) -> Reports:
    return Reports(rays)


async def test_01_values_of_a_runtime_environment_reach_ray_as_they_are_meant(reports: Reports):
    http, by_job, _ = case("01-runtimeenv-scalar-typing.yaml")
    sent: list[Json] = []

    def course(body: Json) -> Course:
        sent.append(body.get("runtime_env", {}).get("env_vars", {}))
        return Course()

    reports.rays.ray.course = course
    await reports.apply(http, by_job)
    await reports.reaches(http, "Complete", seconds=120)
    await reports.reaches(by_job, "Complete", seconds=120)
    wanted = {
        "LR": "1E-5",
        "SHARD": "007",
        "FLAG": "true",
        "DAY": "2026-01-15",
        "CLOCK": "12:30:00",
        "MOTD": "first line\nsecond line",
    }
    assert any(wanted.items() <= each.items() for each in sent)


async def test_07_deletion_rules_with_a_hole_are_named_before_they_cost_anything(reports: Reports):
    reports.rays.ray.course = lambda _body: forever()
    leaky, unsubmitted, covered = case("07-deletion-rules-unmatched.yaml")
    await reports.apply(leaky, unsubmitted, covered)
    for manifest in (leaky, unsubmitted):
        status = await reports.reaches(manifest, "Failed", seconds=60)
        assert "jobDeploymentStatus Failed" in await reports.notes(manifest)
        assert status["reason"] == "DeadlineExceeded"
    assert "DeletionRulesIncomplete" not in await reports.notes(covered)
    await reports.reaches(covered, "Failed", seconds=60)

    async def only_covered_is_deleted() -> bool:
        left = [each.partition("-")[0] for each in await reports.rays.clusters()]
        return "covered" not in left and "leaky" in left

    await reports.world.eventually(only_covered_is_deleted, seconds=60, pause=0.5)


@pytest.mark.real_only
async def test_23_what_a_limit_range_refuses_is_the_first_cause_until_it_is_sized(reports: Reports):
    floor, cluster, job = case("23-limitrange-vs-injected-containers.yaml")
    await reports.apply(floor, cluster, job)
    await reports.says(cluster, "LimitRangeViolated", "wait-gcs-ready")
    await reports.says(job, "LimitRangeViolated", "spec.submitterPodTemplate", seconds=120)
    enough = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    (workers,) = copy.deepcopy(cluster["spec"]["workerGroupSpecs"])
    ours = {"name": "wait-gcs-ready", "resources": enough}
    workers["template"]["spec"]["initContainers"] = [ours]
    await reports.edit(cluster, {"spec": {"workerGroupSpecs": [workers]}})
    await reports.says(cluster, "AllPodsReady", '"state": "ready"', seconds=120)
