"""Suspension, deletion, other people's clusters, deletion rules and rest: RayJobs off the path."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.kube.errors import NotFound
from controller.kube.resources import JOBS, PODS, SERVICES
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.dashboard import JobStatus
from tests.integration.harness import example_cluster
from tests.integration.rays import Rays, forever
from tests.integration.test_at_rest import requests
from tests.integration.test_rayjob_bugs import (
    annotate,
    gone,
    no_clusters,
    ready,
    running,
    stops,
    submitter_pods,
)
from tests.ray.dashboard.simulated import Course, Fault
from tests.ray.job.rayjobs import is_head_lost

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


async def test_a_dashboard_that_does_not_answer_holds_no_suspension_up(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(shutdownAfterJobFinishes=True)
    await running(rays)
    rays.ray.fault(Fault.SILENT)
    await rays.patch(suspend=True)
    await rays.reaches("Suspended", seconds=30)
    assert await rays.clusters() == []


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


async def test_a_job_that_has_ended_is_deleted_at_once(rays: Rays):
    rays.start_operator()
    await rays.create()
    await rays.reaches("Complete")
    await rays.world.user.delete(RAYJOBS, rays.world.namespace, "job", propagation="Background")
    await gone(rays, seconds=5)
    assert stops(rays) == []


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


async def test_a_deleted_cluster_of_another_owner_ends_the_job(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.world.user.create(
        RAYCLUSTERS, rays.world.namespace, example_cluster("shared", replicas=1)
    )
    await rays.create(rayClusterSpec=None, clusterSelector={"ray.io/cluster": "shared"})
    await running(rays)
    await rays.world.user.delete(RAYCLUSTERS, rays.world.namespace, "shared")
    status = await rays.reaches("Failed", seconds=60)
    assert is_head_lost(status)


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


async def test_a_deadline_stops_the_job_in_ray_and_is_not_retried(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(activeDeadlineSeconds=60, backoffLimit=3)
    status = await rays.reaches("Failed", seconds=90)
    assert (status["reason"], status["failed"]) == ("DeadlineExceeded", 1)
    await jobs_end_in_ray(rays, seconds=10)
    assert 1 <= len(stops(rays)) <= 2


SELECTED: dict[str, Any] = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": "shared"}}


async def on_shared_cluster(rays: Rays, **spec: Any) -> None:
    """A job that runs for ever on a cluster that somebody else has made."""
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    body = example_cluster("shared", replicas=1)
    await rays.world.user.create(RAYCLUSTERS, rays.world.namespace, body)
    await rays.create(**(SELECTED | spec))
    await running(rays)


async def jobs_end_in_ray(rays: Rays, *, seconds: float) -> None:
    await rays.world.eventually(lambda: rays.ray.running() == [], seconds=seconds, pause=0.5)


def stop_condition(status: dict[str, Any]) -> str:
    found = find_condition(status.get("conditions", ()), "JobStopped")
    return "" if found is None else str(found["message"])


@pytest.mark.parametrize("mode", ["HTTPMode", "K8sJobMode"])
@pytest.mark.parametrize("fault", [Fault.SILENT, Fault.REFUSES, Fault.ERROR])
async def test_a_deadline_on_a_shared_cluster_is_kept_and_the_job_stopped_later(
    rays: Rays, fault: Fault, mode: str
):
    await on_shared_cluster(rays, activeDeadlineSeconds=60, submissionMode=mode)
    rays.ray.fault(fault)
    status = await rays.reaches("Failed", seconds=65)
    assert (status["reason"], status["jobStatus"]) == ("DeadlineExceeded", "RUNNING")
    assert "may still run" in stop_condition(status)
    await rays.world.settle(120)
    assert await rays.jobs_of_kubernetes() == [], "the submitter has gone too"
    assert len(rays.ray.running()) == 1
    rays.ray.fault(None)
    await jobs_end_in_ray(rays, seconds=60)
    await rays.world.becomes(
        rays.status, lambda found: found["jobStatus"] == "STOPPED", seconds=60, pause=0.5
    )
    status = await rays.status()
    assert (status["jobDeploymentStatus"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert (status["failed"], stop_condition(status)) == (1, "")
    assert len(await rays.clusters()) == 1


async def test_a_job_that_nobody_could_stop_is_stopped_when_it_is_deleted(rays: Rays):
    await on_shared_cluster(rays, activeDeadlineSeconds=60)
    rays.ray.fault(Fault.SILENT)
    await rays.reaches("Failed", seconds=65)
    await rays.world.settle(660)
    assert "gave up" in stop_condition(await rays.status())
    rays.ray.fault(None)
    await rays.world.settle(60)
    assert len(rays.ray.running()) == 1
    await rays.world.user.delete(RAYJOBS, rays.world.namespace, "job", propagation="Background")
    await gone(rays, seconds=35)
    assert rays.ray.running() == []


async def test_a_deletion_that_stops_nothing_says_what_may_run_on(rays: Rays):
    await on_shared_cluster(rays)
    rays.ray.fault(Fault.SILENT)
    await rays.world.user.delete(RAYJOBS, rays.world.namespace, "job", propagation="Background")
    await gone(rays, seconds=35)

    async def told() -> bool:
        return "StopNotConfirmed" in [reason for reason, _ in await rays.events()]

    await rays.world.eventually(told, seconds=20, pause=0.5)


@pytest.mark.parametrize("mode", ["HTTPMode", "K8sJobMode"])
async def test_a_suspension_on_a_shared_cluster_stops_the_job_and_keeps_the_cluster(
    rays: Rays, mode: str
):
    await on_shared_cluster(rays, submissionMode=mode)
    before = await rays.status()
    rays.ray.fault(Fault.SILENT)
    await rays.patch(suspend=True)
    await rays.world.settle(60)
    assert await rays.state() == "Suspending", "nobody has confirmed that the job is stopped"
    assert "may still run" in stop_condition(await rays.status())
    rays.ray.fault(None)
    status = await rays.reaches("Suspended", seconds=60)
    assert rays.ray.running() == []
    assert await rays.jobs_of_kubernetes() == []
    assert len(await rays.clusters()) == 1
    assert stop_condition(status) == ""
    rays.ray.course = lambda _body: Course()
    await rays.patch(suspend=False)
    after = await rays.reaches("Complete", seconds=120)
    assert after["jobId"] != before["jobId"]
    assert after["rayClusterName"] == before["rayClusterName"]
    assert len(await rays.clusters()) == 1


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


async def test_shutdown_deletes_the_cluster_and_keeps_job_and_submitter(rays: Rays):
    rays.start_operator()
    await rays.create(
        submissionMode="K8sJobMode", shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=60
    )
    await rays.reaches("Complete")
    await rays.world.settle(50)
    assert len(await rays.clusters()) == 1
    await no_clusters(rays, seconds=20)
    assert await rays.state() == "Complete"
    assert await rays.jobs_of_kubernetes() == ["job"]


@embedded_only
async def test_shutdown_acts_after_the_last_attempt_only(rays: Rays):
    rays.ray.course = lambda _body: Course(result=JobStatus.FAILED)
    rays.start_operator()
    await rays.create(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=1000, backoffLimit=1)
    status = await rays.reaches("Failed", seconds=300)
    assert status["failed"] == 2
    assert await rays.clusters() == [status["rayClusterName"]]
    await no_clusters(rays, seconds=1100)


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


async def test_a_specification_that_becomes_invalid_before_the_submission_waits_for_it(rays: Rays):
    rays.start_operator()
    await rays.create()
    await rays.reaches("Initializing")
    await rays.patch(runtimeEnvYAML="[")
    await rays.world.settle(60)
    assert await rays.state() == "Initializing"
    assert ready(await rays.status())["reason"] == "ValidationFailed"
    assert rays.ray.submissions() == 0
    await rays.patch(runtimeEnvYAML="")
    await rays.reaches("Complete", seconds=200)
    assert rays.ray.submissions() == 1


async def test_an_edit_that_is_refused_just_before_the_submission_is_the_cause_until_corrected(
    rays: Rays,
):
    rays.ray.fault(Fault.REFUSES)
    rays.start_operator()
    await rays.create()
    await rays.reaches("Running")
    await rays.patch(runtimeEnvYAML="[")
    await rays.world.settle(5)
    rays.ray.fault(None)
    await rays.world.settle(60)
    assert rays.ray.submissions() == 0
    told = ready(await rays.status())
    assert told["reason"] == "ValidationFailed"
    assert "spec.runtimeEnvYAML: is not YAML" in told["message"]
    await rays.patch(runtimeEnvYAML="")
    await rays.reaches("Complete", seconds=120)
    assert rays.ray.submissions() == 1


async def test_the_log_of_a_lost_submitter_is_kept_without_its_secrets(rays: Rays):
    rays.ray.course = lambda _body: Course(result=JobStatus.FAILED)
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode", backoffLimit=1)
    status = await rays.reaches("Failed", seconds=300)
    for attempt in status["attempts"]:
        assert attempt["log"]


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


async def wait_for_image_of_submitter(rays: Rays) -> None:
    """Create a RayJob whose submitter never gets its image, until its condition says so."""
    rays.start_operator()
    manifest = rays.manifest(submissionMode="K8sJobMode")
    template = manifest["spec"]["submitterPodTemplate"]
    template["metadata"]["annotations"] = {"sim.manta.dev/outcome": "image-pull-error"}
    await rays.world.user.create(RAYJOBS, rays.world.namespace, manifest)
    await rays.world.becomes(
        rays.status, lambda found: "Image" in ready(found).get("reason", ""), seconds=60, pause=0.5
    )


async def test_a_submitter_whose_image_cannot_be_pulled_is_named(rays: Rays):
    await wait_for_image_of_submitter(rays)
    message = ready(await rays.status())["message"]
    assert message.startswith("submitter: ")
    assert "correct the image of ray-job-submitter in spec.submitterPodTemplate" in message


async def test_a_head_that_is_lost_is_said_before_it_is_decided(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(backoffLimit=1)
    await running(rays)
    (head,) = rays.heads()
    await annotate(rays, head, outcome="crash", fail_after="0")

    async def told() -> bool:
        status = await rays.status()
        return ready(status).get("reason") == "HeadLost" or bool(status.get("failed"))

    await rays.world.eventually(told, seconds=30, pause=0.1)
    rays.ray.course = lambda _body: Course()
    status = await rays.reaches("Complete", seconds=300)
    retried = find_condition(status["conditions"], "Retried")
    assert retried is not None
    assert retried["reason"] == "HeadLost"
    assert "attempt 1 of 2" in retried["message"]
    await rays.world.eventually(lambda: len(rays.heads()) == 1, seconds=30)


@pytest.mark.parametrize("how", ["replaced", "restarted in place"])
async def test_a_head_that_is_lost_before_the_submitter_starts_costs_no_attempt(
    rays: Rays, how: str
):
    await wait_for_image_of_submitter(rays)
    (before,) = rays.heads()
    if how == "replaced":
        await rays.world.user.delete(PODS, rays.world.namespace, before.metadata.name)
    else:
        await annotate(rays, before, outcome="crash", fail_after="0")

    def is_another() -> bool:
        heads = [rays.head_of(pod) for pod in rays.heads() if not pod.metadata.terminating]
        return [(each.pod_uid, each.restarts) for each in heads] not in ([], [was])

    was = (before.metadata.uid, 0)
    await rays.world.eventually(is_another, seconds=60, pause=0.1)
    for pod in [*rays.heads(), *submitter_pods(rays)]:
        with contextlib.suppress(NotFound):  # a head that was replaced
            await annotate(rays, pod, outcome="run", fail_after=None)
    status = await rays.reaches("Complete", seconds=120)
    assert status.get("failed", 0) == 0
    assert len(status["attempts"]) == 1
    assert rays.ray.submissions() == 1


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
