"""Suspension, deletion, refused edits, other people's clusters and rest: RayJobs off the path."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.kube.resources import JOBS, SERVICES
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.dashboard.responses import JobStatus
from tests.integration.harness import example_cluster
from tests.integration.rays import Rays, forever
from tests.integration.test_at_rest import requests
from tests.integration.test_rayjob_bugs import (
    gone,
    no_clusters,
    ready,
    running,
    stops,
)
from tests.ray.dashboard.simulated import Course, Fault

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
embedded_only = pytest.mark.embedded_only


async def test_a_suspension_stops_the_job_in_ray_before_it_deletes_the_cluster(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(shutdownAfterJobFinishes=True, submissionMode="K8sJobMode")
    before = await running(rays)
    await rays.patch(suspend=True)
    status = await rays.reaches("Suspended")
    assert 1 <= len(stops(rays)) <= 2
    assert await rays.clusters() == []
    assert await rays.jobs_of_kubernetes() == []
    assert not {"jobId", "rayClusterName", "dashboardURL", "jobStatus"} & status.keys()

    await rays.world.settle(10)
    rays.ray.course = lambda _body: Course()
    await rays.patch(suspend=False)
    after = await rays.reaches("Complete")
    assert after["rayClusterName"] != before["rayClusterName"]
    assert after["jobId"] != before["jobId"]
    assert after.get("failed", 0) == 0
    assert [each["result"] for each in after["attempts"]] == ["Suspended", "Succeeded"]


async def test_a_retry_leaves_the_suspension_to_its_owner(rays: Rays):
    rays.ray.course = lambda _body: Course(running=30, result=JobStatus.FAILED)
    rays.start_operator()
    await rays.create(shutdownAfterJobFinishes=True, backoffLimit=3)
    await rays.world.becomes(rays.state, "Retrying", seconds=120, pause=0.02)
    await rays.patch(suspend=True)
    status = await rays.reaches("Suspended")
    assert status["failed"] == 1
    assert (await rays.job()).spec["suspend"] is True
    rays.ray.course = lambda _body: Course()
    await rays.patch(suspend=False)
    status = await rays.reaches("Complete")
    assert (status["failed"], status["succeeded"]) == (1, 1)


async def test_a_deleted_job_is_stopped_in_ray_and_leaves_nothing(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode")
    await running(rays)
    await rays.world.user.delete(RAYJOBS, rays.world.namespace, "job", propagation="Background")
    await gone(rays)
    assert 1 <= len(stops(rays)) <= 2
    await no_clusters(rays)
    await rays.world.eventually(lambda: not rays.world.journal.present, seconds=60)


@pytest.mark.parametrize("fault", [Fault.SILENT, Fault.REFUSES, Fault.HTML])
async def test_a_dashboard_that_cannot_be_asked_holds_no_deletion_up(rays: Rays, fault: Fault):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create()
    await running(rays)
    rays.ray.fault(fault)
    await rays.world.user.delete(RAYJOBS, rays.world.namespace, "job", propagation="Background")
    await gone(rays, seconds=35)
    await no_clusters(rays)


async def test_a_job_on_a_cluster_of_another_owner_leaves_it_alone(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    spec: dict[str, Any] = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": "shared"}}
    await rays.create(**spec)

    async def told() -> bool:
        return ready(await rays.status()).get("reason") == "RayClusterNotFound"

    await rays.world.eventually(told, seconds=20, pause=0.5)
    body = example_cluster("shared", replicas=1)
    made = await rays.world.user.create(RAYCLUSTERS, rays.world.namespace, body)
    await running(rays)
    await rays.world.user.delete(RAYJOBS, rays.world.namespace, "job", propagation="Background")
    await gone(rays)
    assert 1 <= len(stops(rays)) <= 2
    await rays.world.settle(30)
    kept = await rays.world.user.get(RAYCLUSTERS, rays.world.namespace, "shared")
    assert kept.metadata.uid == made.metadata.uid
    assert not kept.metadata.terminating
    assert rays.ray.running() == []


async def test_an_interactive_job_waits_for_its_id(rays: Rays):
    rays.start_operator()
    await rays.create(submissionMode="InteractiveMode", entrypoint=None)
    status = await rays.reaches("Waiting")
    assert "jobId" not in status
    rays.ray.add(rays.head(), "by-hand")
    await rays.patch(jobId="by-hand")
    status = await rays.reaches("Complete")
    assert status["jobId"] == "by-hand"
    assert status["attempts"][0]["jobId"] == "by-hand"


@pytest.mark.parametrize("edit", [{"suspend": True}, {"runtimeEnvYAML": "["}])
async def test_a_refused_edit_hides_neither_the_end_nor_what_follows_it(
    rays: Rays, edit: dict[str, Any]
):
    rays.ray.course = lambda _body: Course(running=60)
    rays.start_operator()
    await rays.create()
    await running(rays)
    await rays.patch(**edit)

    async def refused() -> bool:
        return find_condition((await rays.status())["conditions"], "SpecAccepted") is not None

    await rays.world.eventually(refused, seconds=20, pause=0.5)
    assert await rays.state() == "Running"
    await rays.events("InvalidRayJobSpec")
    status = await rays.reaches("Complete", seconds=120)
    assert (status["succeeded"], status["jobStatus"]) == (1, "SUCCEEDED")


async def test_the_head_service_of_the_job_follows_the_attempt(rays: Rays):
    results = iter([JobStatus.FAILED, JobStatus.SUCCEEDED])
    rays.ray.course = lambda _body: Course(result=next(results))
    rays.start_operator()
    await rays.create(backoffLimit=1)
    status = await rays.reaches("Complete", seconds=300)
    service = await rays.world.user.get(SERVICES, rays.world.namespace, "job-head-svc")
    assert (service.spec.selector or {})["ray.io/cluster"] == status["rayClusterName"]


@embedded_only
async def test_jobs_at_rest_cause_no_write_and_no_read(rays: Rays):
    rays.ray.course = lambda body: forever() if "runs" in body["submission_id"] else Course()
    rays.start_operator()
    await rays.create("ended")
    await rays.create("runs")
    await rays.create("waits", submissionMode="InteractiveMode", entrypoint=None)
    await rays.create("sleeps", suspend=True, shutdownAfterJobFinishes=True)
    await rays.create("wrong", runtimeEnvYAML="[")
    await rays.reaches("Complete", "ended")
    await running(rays, name="runs")
    await rays.reaches("Waiting", "waits")
    await rays.reaches("Suspended", "sleeps")
    await rays.reaches("ValidationFailed", "wrong")
    await rays.world.settle(60)
    before = requests(rays.world)
    await rays.world.settle(3600)
    after = requests(rays.world)
    made = {key: count - before.get(key, 0) for key, count in after.items()}
    assert {key: count for key, count in made.items() if count and key[0] != "watch"} == {}


# -- rayJobs from their manifests to their ends, on simulated Rays ---------------------------------


async def test_a_job_over_http_runs_once_and_completes(rays: Rays):
    rays.start_operator()
    await rays.create()
    status = await rays.reaches("Complete")

    assert status["jobStatus"] == "SUCCEEDED"
    assert status["succeeded"] == 1
    assert status.get("failed", 0) == 0
    assert rays.ray.submissions() == 1
    (attempt,) = status["attempts"]
    assert attempt["result"] == "Succeeded"
    assert attempt["rayClusterName"] == status["rayClusterName"]
    assert await rays.clusters() == [status["rayClusterName"]]


async def test_a_job_with_a_submitter_runs_once_and_completes(rays: Rays):
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode")
    status = await rays.reaches("Complete")
    assert status["succeeded"] == 1
    assert rays.ray.submissions() == 1


async def test_a_foreign_job_of_the_same_name_is_named_and_not_touched(rays: Rays):
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job"},
        "spec": {
            "template": {
                "metadata": {"annotations": {"sim.manta.dev/outcome": "run"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "mine", "image": "busybox"}],
                },
            }
        },
    }
    made = await rays.world.user.create(JOBS, rays.world.namespace, body)
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode")

    async def told() -> bool:
        return ready(await rays.status()).get("reason") == "SubmitterTaken"

    await rays.world.eventually(told, seconds=60, pause=0.5)
    kept = await rays.world.user.get(JOBS, rays.world.namespace, "job")
    assert kept.metadata.uid == made.metadata.uid
    await rays.world.user.delete(JOBS, rays.world.namespace, "job", propagation="Background")
    await rays.reaches("Complete", seconds=120)


async def test_deletion_rules_take_workers_then_cluster_then_the_job(rays: Rays):
    rays.start_operator()

    def rule(policy: str, seconds: int) -> dict[str, Any]:
        condition = {"jobStatus": "SUCCEEDED", "ttlSeconds": seconds}
        return {"policy": policy, "condition": condition}

    rules = [rule("DeleteWorkers", 10), rule("DeleteCluster", 60), rule("DeleteSelf", 120)]
    await rays.create(deletionStrategy={"deletionRules": rules})
    await rays.reaches("Complete")

    def workers() -> list[str]:
        present = rays.world.journal.present.values()
        return [p.metadata.name for p in present if "-worker-" in p.metadata.name]

    await rays.world.eventually(lambda: not workers(), seconds=30, pause=0.5)
    assert len(rays.heads()) == 1
    await no_clusters(rays, seconds=70)
    assert await rays.state() == "Complete"
    await gone(rays, seconds=70)
