"""RayJobs and RayCronJobs need the chart's rights and no more, and with KubeRay's they work too."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from controller.command.kinds import KindSettings, kinds_of
from controller.devcluster.logs import SimulatedLogs
from controller.ray.api import RAYJOBS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.dashboard.results import JobStatus
from controller.ray.permissions import PERMISSIONS
from tests.integration.harness import OPERATOR
from tests.integration.rays import Rays, job_manifest
from tests.ray.dashboard.simulated import Course

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.devcluster.apiserver.audit import Attributes
    from tests.integration.harness import World

RULES = Path(__file__).parents[2] / "charts" / "manta-operator" / "rules.yaml"

pytestmark = pytest.mark.embedded_only


def granted_by_the_chart(verb: str, group: str, resource: str) -> bool:
    return any(
        group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
        for rule in yaml.safe_load(RULES.read_text())
    )


def granted_by_kuberay(verb: str, group: str, resource: str) -> bool:
    return verb in PERMISSIONS.get(f"{resource}.{group}" if group else resource, frozenset())


def limit(world: World, granted: Callable[[str, str, str], bool]) -> list[Attributes]:
    """Let the operator do nothing else; what is refused comes into the list."""
    assert world.server is not None
    world.server.hooks.pod_log = SimulatedLogs(world.server)
    refused: list[Attributes] = []

    def allows(asked: Attributes) -> bool:
        if asked.user_agent != OPERATOR or granted(asked.verb, asked.group, asked.resource):
            return True
        refused.append(asked)
        return False

    world.server.audit.allows = allows
    return refused


async def open_rays(world: World) -> Rays:
    rays = Rays(world)
    await rays.open()
    actors = DashboardActors(
        rays.ray.connect, clock=world.loop, wall=world.wall, rng=random.Random(1)
    )
    world.start_operator(kinds=kinds_of(KindSettings(), actors, actors))
    return rays


async def fail_and_be_retried(rays: Rays) -> dict[str, Any]:
    """A job whose first attempt fails; its last status."""
    courses = iter([Course(result=JobStatus.FAILED), Course()])
    rays.ray.course = lambda _body: next(courses)
    await rays.create("retried", submissionMode="K8sJobMode", backoffLimit=1)
    status = await rays.reaches("Complete", "retried", seconds=600)
    assert len(status["attempts"]) == 2
    return status


async def test_the_charts_rights_are_enough_for_jobs_in_every_mode(world: World):
    refused = limit(world, granted_by_the_chart)
    rays = await open_rays(world)
    status = await fail_and_be_retried(rays)
    assert "container ray-job-submitter" in status["attempts"][0]["log"]
    rays.ray.course = lambda _body: Course()
    await rays.create("by-http", shutdownAfterJobFinishes=True)
    await rays.create("beside", submissionMode="SidecarMode")
    await rays.create("suspended", suspend=True, shutdownAfterJobFinishes=True)
    await rays.reaches("Complete", "by-http")
    await rays.reaches("Suspended", "suspended")
    await rays.patch("suspended", suspend=False)
    await rays.reaches("Complete", "suspended")
    await rays.reaches("Running", "beside")
    rays.ray.course = lambda _body: Course(running=float("inf"))
    await rays.create("deleted")
    await rays.reaches("Running", "deleted")
    for name in ("deleted", "retried"):
        await world.user.delete(RAYJOBS, world.namespace, name)
        await world.eventually(lambda name=name: rays.is_gone(name))
    assert refused == []


async def test_the_charts_rights_are_enough_for_jobs_by_the_clock(world: World):
    refused = limit(world, granted_by_the_chart)
    await open_rays(world)
    spec = {
        "schedule": "*/2 * * * *",
        "concurrencyPolicy": "Replace",
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 0,
        "jobTemplate": job_manifest()["spec"],
    }
    body = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": "often"},
        "spec": spec,
    }
    await world.user.create(RAYCRONJOBS, world.namespace, body)
    await world.settle(900)
    jobs = (await world.user.list(RAYJOBS, world.namespace)).items
    assert 1 <= len(jobs) <= 2
    assert refused == []


async def test_under_kuberays_role_only_the_submitters_words_are_missing(world: World):
    refused = limit(world, granted_by_kuberay)
    rays = await open_rays(world)
    status = await fail_and_be_retried(rays)
    assert {asked.resource for asked in refused} == {"pods/log"}
    log = status["attempts"][0]["log"]
    assert log.startswith("not available: ")
    assert "forbidden" in log
