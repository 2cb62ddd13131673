"""RayJobs in situations that nobody plans, where their manual is hardest to keep."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.kube.resources import NAMESPACES, PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.dashboard import JobStatus
from tests.integration.harness import example_cluster
from tests.integration.rays import Rays, forever
from tests.integration.test_at_rest import requests
from tests.integration.test_rayjob_bugs import ready, running
from tests.integration.test_rayjob_life import gone, no_clusters, stops
from tests.ray.dashboard.simulated import NEVER, Course, Fault
from tests.ray.job.rayjobs import is_head_lost

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]


SHARED: dict[str, Any] = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": "shared"}}


async def shared_cluster(rays: Rays, **spec: Any) -> None:
    body = example_cluster("shared", replicas=1)
    body["spec"] |= spec
    await rays.world.user.create(RAYCLUSTERS, rays.world.namespace, body)


async def test_a_job_that_fails_while_its_specification_is_wrong_is_retried_once_it_is_right(
    rays: Rays,
):
    rays.submitters_follow = False
    results = iter([JobStatus.FAILED, JobStatus.SUCCEEDED])
    rays.ray.course = lambda _body: Course(running=20, result=next(results))
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode", backoffLimit=2)
    await running(rays, "FAILED")
    await rays.patch(runtimeEnvYAML="[")
    await rays.world.settle(400)
    assert await rays.state() == "ValidationFailed", "the failure counts, and the retry waits"
    rays.submitters_follow = True
    await rays.patch(runtimeEnvYAML=None)
    status = await rays.reaches("Complete", seconds=400)
    assert (status["failed"], status["succeeded"]) == (1, 1)


async def test_a_suspension_waits_until_ray_says_that_the_job_is_stopped(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(shutdownAfterJobFinishes=True)
    status = await running(rays)
    await rays.patch(suspend=True)
    await rays.world.eventually(lambda: stops(rays), seconds=20)
    asked = stops(rays)[0]
    name = status["rayClusterName"]

    async def deleted() -> bool:
        found = await rays.world.user.list(RAYCLUSTERS, rays.world.namespace)
        return not any(
            each.metadata.name == name and not each.metadata.terminating for each in found.items
        )

    await rays.world.eventually(deleted, seconds=30, pause=0.1)
    assert rays.world.loop.time() - asked >= 2.5


@pytest.mark.parametrize("course", [Course(pending=NEVER), forever()])
async def test_a_deadline_shows_what_ray_said_last_and_then_how_the_job_ended(
    rays: Rays, course: Course
):
    rays.ray.course = lambda _body: course
    rays.start_operator()
    await rays.create(activeDeadlineSeconds=60, backoffLimit=3)
    status = await rays.reaches("Failed", seconds=90)
    assert status["reason"] == "DeadlineExceeded"
    assert status["jobStatus"] == ("PENDING" if course.pending == NEVER else "RUNNING")
    assert "endTime" not in status["rayJobInfo"]
    shown = rays.world.loop.time()
    while (await rays.status())["jobStatus"] == status["jobStatus"]:
        await rays.world.settle(0.5)
        if rays.world.loop.time() > shown + 60:
            break
    assert rays.world.loop.time() - shown > 2, "KubeRay's clients look once a second"
    after = await rays.status()
    assert after["jobStatus"] == ("PENDING" if course.pending == NEVER else "STOPPED")
    assert (after["reason"], after["message"]) == (status["reason"], status["message"])
    assert course.pending == NEVER or not rays.ray.running()


async def test_a_submitter_that_the_server_refuses_is_named_and_given_up_in_time(rays: Rays):
    rays.start_operator()
    manifest = rays.manifest(submissionMode="K8sJobMode", preRunningDeadlineSeconds=120)
    manifest["spec"]["submitterPodTemplate"]["spec"]["containers"][0]["name"] = "Not A Name"
    await rays.world.user.create(RAYJOBS, rays.world.namespace, manifest)

    async def told() -> bool:
        return ready(await rays.status()).get("reason") == "ObjectInvalid"

    await rays.world.eventually(told, seconds=60, pause=0.5)
    assert "cannot be created" in ready(await rays.status())["message"]
    status = await rays.reaches("Failed", seconds=130)
    assert status["reason"] == "PreRunningDeadlineExceeded"
    assert "Job job: cannot be created" in status["message"]


async def test_a_job_on_a_head_that_keeps_its_state_is_stopped_on_the_next_head(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    redis = {"redisAddress": "redis:6379"}
    await shared_cluster(rays, gcsFaultToleranceOptions=redis)
    await rays.create(**SHARED)
    status = await running(rays)
    first = rays.head()
    (head,) = rays.heads()
    await rays.world.user.delete(PODS, rays.world.namespace, head.metadata.name)

    def replaced() -> bool:
        heads = [pod for pod in rays.heads() if not pod.metadata.terminating]
        return len(heads) == 1 and heads[0].metadata.uid != first.pod_uid

    await rays.world.eventually(replaced, seconds=60)
    rays.ray.add(rays.head(), status["jobId"], course=forever())
    rays.ray.lose_jobs(first)
    await rays.world.settle(60)
    assert await rays.state() == "Running"
    await rays.world.user.delete(RAYJOBS, rays.world.namespace, "job", propagation="Background")
    await gone(rays)
    await rays.world.settle(5)
    assert 1 <= len(stops(rays)) <= 2


async def test_a_head_lost_under_a_refused_edit_ends_the_attempt_and_submits_nothing(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create()
    await rays.world.eventually(lambda: rays.ray.submissions() == 1, seconds=120, pause=0.01)
    await rays.patch(runtimeEnvYAML="[")
    (head,) = rays.heads()
    await rays.world.user.delete(PODS, rays.world.namespace, head.metadata.name)
    status = await rays.reaches("Failed", seconds=150)
    assert is_head_lost(status)
    assert rays.ray.submissions() == 1


async def test_a_submitter_submits_no_lost_job_again_to_the_next_head(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.submitters_resubmit = True
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode")
    await running(rays)
    (head,) = rays.heads()
    await rays.world.user.delete(PODS, rays.world.namespace, head.metadata.name)
    status = await rays.reaches("Failed", seconds=150)
    await rays.world.settle(120)
    assert is_head_lost(status)
    assert rays.ray.submissions() == 1


async def test_a_long_message_keeps_its_end(rays: Rays):
    words = (
        "Job entrypoint command failed, last logs:\n" + "x" * 10_000 + "\nValueError: the reason"
    )
    rays.ray.course = lambda _body: Course(result=JobStatus.FAILED, message=words)
    rays.start_operator()
    await rays.create()
    status = await rays.reaches("Failed")
    assert len(status["message"]) <= 2048
    assert status["message"].startswith("Job entrypoint command failed")
    assert status["message"].endswith("ValueError: the reason")


@pytest.mark.parametrize("fault", [Fault.HTML, Fault.ERROR, Fault.ERROR_JSON, Fault.FORBIDDEN])
async def test_a_dashboard_that_answers_nonsense_for_five_minutes_ends_the_job(
    rays: Rays, fault: Fault
):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(backoffLimit=3)
    await running(rays)
    rays.ray.fault(fault)
    await rays.world.settle(280)
    assert await rays.state() == "Running"
    status = await rays.reaches("Failed", seconds=60)
    assert (status["reason"], status["failed"]) == ("JobStatusCheckTimeoutExceeded", 1)
    assert status["jobStatus"] == "RUNNING"


@pytest.mark.parametrize("failing", [False, True])
async def test_a_dashboard_out_of_reach_as_the_submitter_ends_decides_nothing(
    rays: Rays, failing: bool
):
    rays.ray.course = lambda _body: Course(running=60)
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode", submitterConfig={"backoffLimit": 0})
    await running(rays)
    rays.ray.fault(Fault.REFUSES)
    if failing:
        rays.submitters_fail = lambda _job_id: True
    await rays.world.settle(240)
    assert await rays.state() == "Running"
    rays.ray.fault(None)
    status = await rays.reaches("Complete", seconds=60)
    assert (status["succeeded"], status.get("failed", 0)) == (1, 0)


async def test_a_job_that_somebody_stops_is_complete_and_did_not_succeed(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(backoffLimit=2, shutdownAfterJobFinishes=True)
    status = await running(rays)
    rays.ray.end(status["jobId"], JobStatus.STOPPED)
    status = await rays.reaches("Complete", seconds=60)
    assert status["jobStatus"] == "STOPPED"
    assert (status.get("succeeded", 0), status.get("failed", 0)) == (0, 0)
    assert status["attempts"][0]["result"] == "Stopped"
    await no_clusters(rays)


async def test_a_job_that_waits_for_resources_for_good_holds_no_suspension_up(rays: Rays):
    rays.ray.course = lambda _body: Course(pending=NEVER)
    rays.start_operator()
    await rays.create(shutdownAfterJobFinishes=True)
    await running(rays, "PENDING")
    await rays.patch(suspend=True)
    await rays.reaches("Suspended", seconds=25)
    assert stops(rays)


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


async def test_a_failed_job_stays_failed_whatever_the_limit_becomes(rays: Rays):
    rays.ray.course = lambda _body: Course(result=JobStatus.FAILED)
    rays.start_operator()
    await rays.create(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=1000)
    await rays.reaches("Failed")
    await rays.patch(backoffLimit=5, suspend=True)
    await rays.world.settle(60)
    assert await rays.state() == "Failed"
    await rays.patch(ttlSecondsAfterFinished=90)
    await no_clusters(rays, seconds=60)


async def test_a_limit_that_is_lowered_while_the_job_runs_counts(rays: Rays):
    rays.ray.course = lambda _body: Course(running=60, result=JobStatus.FAILED)
    rays.start_operator()
    await rays.create(backoffLimit=5)
    await running(rays)
    await rays.patch(backoffLimit=0)
    assert (await rays.reaches("Failed"))["failed"] == 1


async def test_a_deadline_can_be_moved_while_the_job_runs(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(activeDeadlineSeconds=60)
    await running(rays)
    await rays.patch(activeDeadlineSeconds=300)
    await rays.world.settle(120)
    assert await rays.state() == "Running"
    await rays.patch(activeDeadlineSeconds=130)
    assert (await rays.reaches("Failed", seconds=30))["reason"] == "DeadlineExceeded"


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


async def test_an_interactive_job_whose_id_is_there_early_runs_at_once(rays: Rays):
    rays.start_operator()
    await rays.create(submissionMode="InteractiveMode", entrypoint=None, jobId="mine")
    status = await rays.reaches("Running")
    assert status["jobId"] == "mine"


async def test_a_suspension_of_a_waiting_job_ends_its_cluster(rays: Rays):
    rays.start_operator()
    await rays.create(
        submissionMode="InteractiveMode", entrypoint=None, shutdownAfterJobFinishes=True
    )
    await rays.reaches("Waiting")
    await rays.patch(suspend=True)
    await rays.reaches("Suspended")
    assert await rays.clusters() == []
    await rays.patch(suspend=False)
    await rays.reaches("Waiting")


async def test_kueues_admission_is_kept_over_a_retry(rays: Rays):
    results = iter([JobStatus.FAILED, JobStatus.SUCCEEDED])
    rays.ray.course = lambda _body: Course(result=next(results))
    rays.start_operator()
    manifest = rays.manifest(suspend=True, shutdownAfterJobFinishes=True, backoffLimit=1)
    manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    await rays.world.user.create(RAYJOBS, rays.world.namespace, manifest)
    await rays.reaches("Suspended")
    assert rays.heads() == []
    await rays.patch(suspend=False)
    generation = (await rays.job()).metadata.generation
    await rays.reaches("Complete", seconds=300)
    job = await rays.job()
    assert job.metadata.generation == generation
    assert job.metadata.labels == {"kueue.x-k8s.io/queue-name": "team"}
    assert job.status["failed"] == 1


@pytest.mark.parametrize("mode", ["HTTPMode", "K8sJobMode", "SidecarMode"])
async def test_a_restarted_operator_takes_nothing_back(rays: Rays, mode: str):
    rays.ray.course = lambda _body: Course(running=60)
    operator = rays.start_operator()
    await rays.create(submissionMode=mode)
    for _ in range(30):
        await rays.world.settle(3.3)
        await operator.kill()
        operator = rays.start_operator()
    status = await rays.reaches("Complete")
    assert (status["succeeded"], status.get("failed", 0)) == (1, 0)
    assert len(status["attempts"]) == 1
    assert rays.ray.submissions() == 1


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


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_job_that_another_operator_ran_is_taken_over(rays: Rays, deleted: bool):
    """What KubeRay leaves: no annotation of ours, no conditions, no attempts."""
    rays.ray.course = lambda _body: Course(running=120)
    operator = rays.start_operator()
    await shared_cluster(rays)
    await rays.create(submissionMode="K8sJobMode", **SHARED)
    await running(rays)
    await operator.kill()
    user, namespace = rays.world.user, rays.world.namespace
    annotations = {"annotations": {"manta.dev/runs-on": None}}
    await user.merge_patch(RAYJOBS, namespace, "job", {"metadata": annotations})
    status = dict.fromkeys(["attempts", "conditions", "observedGeneration"])
    await user.merge_patch(RAYJOBS, namespace, "job", {"status": status}, subresource="status")
    if deleted:
        await user.delete(RAYJOBS, namespace, "job", propagation="Background")
    rays.start_operator()
    if deleted:
        await gone(rays)
        await rays.world.settle(5)
        assert rays.ray.running() == []
    else:
        assert (await rays.reaches("Complete", seconds=300))["succeeded"] == 1
    assert rays.ray.submissions() == 1


async def test_a_job_goes_with_its_namespace_though_no_dashboard_answers(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode")
    await running(rays)
    rays.ray.fault(Fault.SILENT)
    await rays.world.user.delete(NAMESPACES, "", rays.world.namespace)
    await gone(rays, seconds=35)


async def test_a_job_runs_on_a_cluster_that_asks_for_a_token(rays: Rays):
    rays.ray.token = "a-token"
    rays.ray.client_token = lambda: "a-token"
    rays.start_operator()
    manifest = rays.manifest()
    manifest["spec"]["rayClusterSpec"]["authOptions"] = {"mode": "token"}
    await rays.world.user.create(RAYJOBS, rays.world.namespace, manifest)
    status = await rays.reaches("Complete")
    assert {asked.head.token_secret for asked in rays.ray.asked} == {status["rayClusterName"]}


async def test_a_head_that_is_replaced_before_the_job_was_submitted_costs_no_attempt(rays: Rays):
    rays.ray.fault(Fault.REFUSES)
    rays.start_operator()
    await rays.create()
    await rays.reaches("Running")
    (head,) = rays.heads()
    await rays.world.user.delete(PODS, rays.world.namespace, head.metadata.name)
    await rays.world.settle(60)
    assert rays.ray.submissions() == 0
    rays.ray.fault(None)
    status = await rays.reaches("Complete", seconds=120)
    assert status.get("failed", 0) == 0
    assert rays.ray.submissions() == 1


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
