"""RayJobs and RayCronJobs need the chart's rights and no more, and with KubeRay's they work too.

On a real API server the operator is a service account with a Role of just these rights.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.command.kinds import KindSettings, kinds_of
from controller.kube.transport import Transport
from controller.ray.api import RAYJOBS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayjob import RayJob
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.dashboard.responses import JobStatus
from controller.ray.settings import PERMISSIONS
from controller.testing.faults import JournalEntry
from devcluster.apiserver.authorization import Attributes
from devcluster.logs import SimulatedLogs
from tests.integration.definitions import put_in_place
from tests.integration.harness import OPERATOR, RunningOperator, World
from tests.integration.rays import Rays, job_manifest
from tests.integration.rayservices import Services, live_and_die
from tests.integration.test_rights import restricted
from tests.ray.dashboard.simulated import Course

RULES = Path(__file__).parents[2] / "charts" / "manta-operator" / "rules.yaml"

PATIENCE = 240.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

Rules = list[dict[str, list[str]]]


def rules_of_the_chart() -> Rules:
    return yaml.safe_load(RULES.read_text())


def rules_of_kuberay() -> Rules:
    rules: Rules = []
    for name, verbs in PERMISSIONS.items():
        resource, _, group = name.partition(".")
        rules.append({"apiGroups": [group], "resources": [resource], "verbs": sorted(verbs)})
    return rules


HISTORY = "controllerrevisions.apps"
BUDGETS = "poddisruptionbudgets.policy"
"""These two are refused by KubeRay's role, and missed by nobody who asks for nothing."""
"""What Manta's own chart grants: the history of rolling updates."""


@dataclass
class Limited:
    """Rays whose operator may do what its rules say and nothing else.

    Attributes:
        refused: resources of the requests that were refused.
    """

    rays: Rays
    refused: list[str] = field(default_factory=list[str])

    def start(self, rules: Rules, transport: Transport | None) -> None:
        world = self.rays.world
        if world.server is not None:
            world.server.hooks.pod_log = SimulatedLogs(world.server)
            world.server.audit.authorizer = partial(self.allows, rules)
        actors = DashboardActors(
            self.rays.ray.connect, clock=world.loop, wall=world.wall, rng=random.Random(1)
        )
        kinds = kinds_of(KindSettings(), actors)
        operator = world.start_operator(kinds=kinds, transport=transport)
        operator.transport.on_answer.append(self._note)

    @staticmethod
    def allows(rules: Rules, asked: Attributes) -> bool:
        return asked.user_agent != OPERATOR or any(
            asked.group in rule["apiGroups"]
            and asked.resource in rule["resources"]
            and asked.verb in rule["verbs"]
            for rule in rules
        )

    def _note(self, entry: JournalEntry) -> None:
        if entry.outcome == "403":
            about = entry.attributes
            self.refused.append("/".join(filter(None, (about.resource, about.subresource))))


@asynccontextmanager
async def limited(world: World, rules: Rules) -> AsyncGenerator[Limited]:
    rays = Rays(world)
    await rays.open()
    it = Limited(rays)
    if world.server is not None:
        it.start(rules, None)
        yield it
        return
    transport = await restricted(world, rules)
    it.start(rules, transport)
    try:
        yield it
    finally:
        for operator in world.operators:
            await operator.kill()
        await transport.aclose()


async def fail_and_be_retried(rays: Rays) -> dict[str, Any]:
    """A job whose first attempt fails; its last status."""
    courses = iter([Course(running=3, result=JobStatus.FAILED), Course(running=3)])
    rays.ray.course = lambda _body: next(courses)
    await rays.create("retried", submissionMode="K8sJobMode", backoffLimit=1)
    status = await rays.reaches("Complete", "retried", seconds=600)
    assert len(status["attempts"]) == 2
    return status


@pytest.mark.vital
async def test_the_charts_rights_are_enough_for_jobs_in_every_mode(world: World):
    async with limited(world, rules_of_the_chart()) as it:
        rays = it.rays
        status = await fail_and_be_retried(rays)
        log = status["attempts"][0]["log"]
        # A real API server here has no kubelet to ask.
        expected = "container ray-job-submitter" if world.server else "not available: "
        assert expected in log
        rays.ray.course = lambda _body: Course(running=3)
        await rays.create("by-http", shutdownAfterJobFinishes=True)
        await rays.create("beside", submissionMode="SidecarMode")
        await rays.create("suspended", suspend=True, shutdownAfterJobFinishes=True)
        await rays.reaches("Complete", "by-http", seconds=PATIENCE)
        await rays.reaches("Suspended", "suspended", seconds=PATIENCE)
        await rays.patch("suspended", suspend=False)
        await rays.reaches("Complete", "suspended", seconds=PATIENCE)
        await rays.reaches("Complete", "beside", seconds=PATIENCE)
        rays.ray.course = lambda _body: Course(running=float("inf"))
        await rays.create("deleted")
        await rays.reaches("Running", "deleted", seconds=PATIENCE)
        for name in ("deleted", "retried"):
            await world.user.delete(RAYJOBS, world.namespace, name)
            await world.eventually(lambda name=name: rays.is_gone(name), seconds=PATIENCE)
        assert it.refused == []


@pytest.mark.parametrize("rules", [rules_of_the_chart, rules_of_kuberay], ids=["chart", "kuberay"])
async def test_the_rights_are_enough_for_jobs_by_the_clock(
    world: World, rules: Callable[[], Rules]
):
    async with limited(world, rules()) as it:
        it.rays.ray.course = lambda _body: Course(running=3)
        await world.user.create(RAYCRONJOBS, world.namespace, every_minute())

        async def completed_and_went() -> bool:
            cron_job = await world.user.get(RAYCRONJOBS, world.namespace, "often")
            names = {job.metadata.name for job in await jobs(world)}
            seen.update(names)
            return "lastSuccessfulTime" in cron_job.status and len(seen - names) > 0

        seen: set[str] = set()
        await world.eventually(completed_and_went, seconds=300, pause=0.5)
        assert set(it.refused) <= {HISTORY, BUDGETS}


def every_minute() -> dict[str, Any]:
    """A RayCronJob that keeps one finished RayJob and replaces what runs."""
    spec = {
        "schedule": "* * * * *",
        "concurrencyPolicy": "Replace",
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 0,
        "jobTemplate": job_manifest()["spec"],
    }
    meta = {"name": "often"}
    return {"apiVersion": "ray.io/v1", "kind": "RayCronJob", "metadata": meta, "spec": spec}


async def jobs(world: World) -> list[RayJob]:
    return (await world.user.list(RAYJOBS, world.namespace)).items


async def test_under_kuberays_role_only_the_submitters_words_are_missing(world: World):
    async with limited(world, rules_of_kuberay()) as it:
        status = await fail_and_be_retried(it.rays)
        assert set(it.refused) == {"pods/log", HISTORY, BUDGETS}
        log = status["attempts"][0]["log"]
        assert log.startswith("not available: ")
        assert "forbidden" in log


# -- rayServices under the definitions of KubeRay, and with the rights of the chart or of KubeRay --


KUBERAY_CRDS = Path(
    os.environ.get("MANTA_KUBERAY_CRDS", Path(__file__).parents[3] / "shared" / "crds")
)


@pytest.mark.timeout(300)
@pytest.mark.vital
@pytest.mark.parametrize(
    ("rules", "without"),
    [(rules_of_the_chart, set()), (rules_of_kuberay, {f"list {HISTORY}", f"list {BUDGETS}"})],
    ids=["chart", "kuberay"],
)
async def test_the_rights_are_enough_for_services(
    world: World, services: Services, rules: Callable[[], Rules], without: set[str]
):
    if world.server is not None:
        world.server.audit.authorizer = partial(Limited.allows, rules())
        operator = services.start_operator()
        refused = refusals(operator)
        await live_and_die(services)
    else:
        transport = await restricted(world, rules())
        operator = services.start_operator(transport=transport)
        refused = refusals(operator)
        try:
            await live_and_die(services)
        finally:
            await operator.kill()
            await transport.aclose()
    assert set(refused) <= without


def refusals(operator: RunningOperator) -> list[str]:
    """Resources of the requests that are refused from now on."""
    found: list[str] = []

    def note(entry: JournalEntry) -> None:
        if entry.outcome == "403":
            found.append(f"{entry.attributes.verb} {entry.attributes.resource}")

    operator.transport.on_answer.append(note)
    return found


@pytest.mark.timeout(300)
@pytest.mark.embedded_only
async def test_kuberays_definitions_serve_as_well(world: World, services: Services):
    for plural in ("rayservices", "rayclusters"):
        file = KUBERAY_CRDS / f"ray.io_{plural}.yaml"
        if not file.exists():
            pytest.skip(f"SKIPPED, NOT PASSED: KubeRay's definitions are not at {KUBERAY_CRDS}")
        await put_in_place(world, yaml.load(file.read_text(), Loader=yaml.CSafeLoader))
    await world.settle(2)
    services.start_operator()
    await live_and_die(services)
    reported = await world.events_about("RayService", "svc")
    assert "DefinitionIncomplete" not in [reason for reason, _ in reported]
