"""RayJobs in situations that nobody plans: what only their whole life shows."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.apimachinery.conditions import find_condition
from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.dashboard.responses import JobStatus
from tests.integration.harness import example_cluster
from tests.integration.rays import Rays, forever
from tests.integration.test_at_rest import requests
from tests.ray.dashboard.simulated import Course, Fault
from tests.ray.job.rayjobs import is_head_lost

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
embedded_only = pytest.mark.embedded_only


async def running(rays: Rays, status: str = "RUNNING", name: str = "job") -> dict[str, Any]:
    async def reached() -> bool:
        return (await rays.status(name)).get("jobStatus") == status

    await rays.world.eventually(reached, seconds=120, pause=0.5)
    return await rays.status(name)


async def annotate(rays: Rays, pod: Pod, **behaviour: str | None) -> None:
    annotations = {f"sim.manta.dev/{key.replace('_', '-')}": v for key, v in behaviour.items()}
    await rays.world.user.merge_patch(
        PODS, rays.world.namespace, pod.metadata.name, {"metadata": {"annotations": annotations}}
    )


def ready(status: dict[str, Any]) -> dict[str, Any]:
    return dict(find_condition(status.get("conditions", ()), "Ready") or {})


def submitter_pods(rays: Rays) -> list[Pod]:
    return [
        pod
        for pod in rays.world.journal.created.values()
        if (pod.metadata.labels or {}).get("ray.io/node-type") == "submitter"
    ]


async def gone(rays: Rays, name: str = "job", *, seconds: float = 60.0) -> None:
    async def reached() -> bool:
        return await rays.is_gone(name)

    await rays.world.eventually(reached, seconds=seconds, pause=0.5)


async def no_clusters(rays: Rays, *, seconds: float = 60.0) -> None:
    await rays.world.becomes(rays.clusters, [], seconds=seconds, pause=0.5)


def stops(rays: Rays) -> list[float]:
    return [asked.at for asked in rays.ray.asked if asked.path.endswith("/stop")]


@pytest.mark.vital
async def test_a_submission_whose_answer_is_lost_is_not_repeated(rays: Rays):
    rays.start_operator()
    await rays.create()
    await rays.world.eventually(rays.heads, seconds=60)
    rays.ray.fault(Fault.LOSES_ANSWERS)
    await rays.world.settle(40)
    rays.ray.fault(None)
    status = await rays.reaches("Complete")
    assert rays.ray.submissions() == 1
    assert status.get("failed", 0) == 0


@pytest.mark.vital
async def test_a_retry_runs_on_a_fresh_cluster_under_another_name(rays: Rays):
    results = iter([JobStatus.FAILED, JobStatus.FAILED, JobStatus.SUCCEEDED])
    rays.ray.course = lambda _body: Course(result=next(results))
    rays.start_operator()
    await rays.create(backoffLimit=2)
    status = await rays.reaches("Complete", seconds=400)
    names = [each["rayClusterName"] for each in status["attempts"]]
    assert len(set(names)) == 3
    assert await rays.clusters() == names[2:]


@pytest.mark.vital
async def test_a_job_over_http_is_never_submitted_to_a_second_head(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create()
    status = await running(rays)
    (head,) = rays.heads()
    await rays.world.user.delete(PODS, rays.world.namespace, head.metadata.name)
    ended = await rays.reaches("Failed", seconds=120)
    assert is_head_lost(ended)
    assert rays.ray.submissions(status["jobId"]) == 1


SHARED: dict[str, Any] = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": "shared"}}


async def shared_cluster(rays: Rays, **spec: Any) -> None:
    body = example_cluster("shared", replicas=1)
    body["spec"] |= spec
    await rays.world.user.create(RAYCLUSTERS, rays.world.namespace, body)


@embedded_only
async def test_only_the_last_ten_attempts_are_kept(rays: Rays):
    rays.ray.course = lambda _body: Course(running=1, result=JobStatus.FAILED)
    rays.start_operator()
    await rays.create(backoffLimit=11)
    status = await rays.reaches("Failed", seconds=600)
    assert status["failed"] == 12
    assert [each["number"] for each in status["attempts"]] == list(range(3, 13))
    retried = [
        note for reason, note in await rays.events("RetryingRayJob") if reason == "RetryingRayJob"
    ]
    assert len(retried) == len(set(retried)) == 11


@embedded_only
async def test_two_jobs_share_a_cluster_and_neither_touches_the_other(rays: Rays):
    rays.ray.course = lambda body: forever() if "long" in body["submission_id"] else Course()
    rays.start_operator()
    await shared_cluster(rays)
    await rays.create("long", **SHARED)
    await rays.create("short", **SHARED)
    await rays.reaches("Complete", "short")
    await rays.world.user.delete(RAYJOBS, rays.world.namespace, "short", propagation="Background")
    await gone(rays, "short")
    assert stops(rays) == []
    assert len(rays.ray.running()) == 1
    assert await rays.state("long") == "Running"


@embedded_only
@pytest.mark.parametrize("mode", ["HTTPMode", "K8sJobMode", "SidecarMode"])
@pytest.mark.parametrize("after", [0.0, 1.0, 2.5, 4.0, 5.0, 8.0, 16.0, 30.0])
async def test_a_job_can_be_deleted_at_any_time(rays: Rays, mode: str, after: float):
    rays.ray.course = lambda _body: Course(running=5, result=JobStatus.FAILED)
    rays.start_operator()
    await rays.create(submissionMode=mode, backoffLimit=20)
    await rays.world.settle(after)
    rays.ray.fault(Fault.SILENT)
    await rays.world.user.delete(RAYJOBS, rays.world.namespace, "job", propagation="Background")
    await gone(rays, seconds=32)
    await no_clusters(rays)
    await rays.world.eventually(lambda: not rays.world.journal.present, seconds=60)


@embedded_only
async def test_a_job_that_runs_for_an_hour_costs_little(rays: Rays):
    rays.ray.course = lambda _body: Course(running=3600)
    registry = CollectorRegistry()
    rays.start_operator(registry=registry)
    await rays.create()
    await running(rays)
    await rays.world.settle(600)
    asked, before = rays.ray.requests(), requests(rays.world)
    looks = reconciles(registry)
    await rays.world.settle(1800)
    assert (rays.ray.requests() - asked) / 30 <= 2.1
    assert looks > 5
    assert reconciles(registry) - looks <= 1
    made = {k: n - before.get(k, 0) for k, n in requests(rays.world).items() if k[0] != "watch"}
    assert not any(made.values()), made
    await rays.reaches("Complete", seconds=1500)
    assert reconciles(registry) < 60


def reconciles(registry: CollectorRegistry) -> float:
    return sum(
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "controller_runtime_reconcile_total"
        and sample.labels.get("controller") == "rayjob-controller"
    )


@embedded_only
async def test_a_job_runs_on_a_cluster_that_asks_for_a_token(rays: Rays):
    rays.ray.token = "a-token"
    rays.ray.client_token = lambda: "a-token"
    rays.start_operator()
    manifest = rays.manifest()
    manifest["spec"]["rayClusterSpec"]["authOptions"] = {"mode": "token"}
    await rays.world.user.create(RAYJOBS, rays.world.namespace, manifest)
    status = await rays.reaches("Complete")
    assert {asked.head.token_secret for asked in rays.ray.asked} == {status["rayClusterName"]}


@embedded_only
@pytest.mark.parametrize("mode", ["HTTPMode", "K8sJobMode"])
async def test_a_job_that_simply_runs_costs_few_writes(rays: Rays, mode: str):
    registry = CollectorRegistry()
    operator = rays.start_operator(registry=registry)
    await rays.create(submissionMode=mode)
    await rays.reaches("Complete")
    await rays.world.settle(30)
    writes = [
        entry.attributes.subresource
        for entry in operator.transport.journal.writes
        if entry.attributes.resource == str(RAYJOBS)
    ]
    assert writes.count("") == 2, "the finalizer and the head"
    assert writes.count("status") <= 5, "three transitions and what Ray reported between them"
    assert reconciles(registry) <= 27


@embedded_only
async def test_an_evicted_submitter_does_not_fail_a_job_that_succeeds(rays: Rays):
    rays.ray.course = lambda _body: Course(running=200)
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode", submitterConfig={"backoffLimit": 0})
    await running(rays)
    for pod in submitter_pods(rays):
        await annotate(rays, pod, outcome="fail", fail_after="0")
    status = await rays.reaches("Complete", seconds=400)
    assert status["jobStatus"] == "SUCCEEDED"
    await rays.events("SubmitterFailed")
    assert rays.ray.submissions() == 1
