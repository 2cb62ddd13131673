"""The bugs of docs/rules.md that concern RayJobs, by number: each is shown not to be here."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.kube.objects import Pod
from controller.kube.resources import CLAIMS, PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.dashboard import JobStatus
from tests.integration.rays import Rays, forever
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


async def test_one_rayjob_is_one_ray_job_whatever_becomes_of_the_operator(rays: Rays):
    operator = rays.start_operator()
    await rays.create()
    await rays.world.eventually(lambda: rays.ray.submissions() == 1, seconds=120, pause=0.01)
    await operator.kill()  # before it could write down that Ray has the job
    assert (await rays.status()).get("jobStatus") is None
    rays.start_operator()
    await rays.reaches("Complete")
    assert rays.ray.submissions() == 1


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


@embedded_only
async def test_a_failed_driver_is_shown_though_the_submitter_goes_on(rays: Rays):
    rays.ray.course = lambda _body: Course(result=JobStatus.FAILED)
    rays.submitters_follow = False
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode")
    status = await running(rays, "FAILED")
    assert status["jobDeploymentStatus"] == "Running"
    status = await rays.reaches("Failed", seconds=330)
    assert status["reason"] == "JobDeploymentStatusTransitionGracePeriodExceeded"


async def test_a_submitter_that_exits_with_0_does_not_make_a_failed_job_succeed(rays: Rays):
    rays.ray.course = lambda _body: Course(result=JobStatus.FAILED)
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode", backoffLimit=1)
    status = await rays.reaches("Failed", seconds=400)
    assert status["failed"] == 2
    assert status.get("succeeded", 0) == 0
    assert [each["reason"] for each in status["attempts"]] == ["AppFailed", "AppFailed"]


async def test_one_submitter_is_enough_if_the_user_says_so(rays: Rays):
    rays.submitters_fail = lambda _job_id: True
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode", submitterConfig={"backoffLimit": 0})
    status = await rays.reaches("Failed", seconds=200)
    assert status["reason"] == "SubmissionFailed"
    assert len(submitter_pods(rays)) == 1
    assert rays.ray.submissions() == 0


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


async def test_an_evicted_head_ends_the_attempt_within_two_minutes(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode", backoffLimit=1)
    before = await running(rays)
    (head,) = rays.heads()
    await annotate(rays, head, outcome="fail", fail_after="0")
    await rays.world.becomes(
        rays.status, lambda found: found.get("failed") == 1, seconds=120, pause=0.5
    )
    rays.ray.course = lambda _body: Course()
    after = await rays.reaches("Complete", seconds=300)
    assert after["attempts"][0]["reason"] == "HeadLost"
    assert after["rayClusterName"] != before["rayClusterName"]
    assert await rays.clusters() == [after["rayClusterName"]]


async def test_a_head_restarted_in_place_ends_the_attempt_within_two_minutes(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode")
    await running(rays)
    (head,) = rays.heads()
    await annotate(rays, head, outcome="crash", fail_after="0")
    status = await rays.reaches("Failed", seconds=120)
    assert is_head_lost(status)
    assert "ended with exit code 1" in status["message"]
    assert "gone" not in status["message"]


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


async def test_a_job_that_vanishes_from_ray_is_not_submitted_again(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create()
    await running(rays)
    rays.ray.lose_jobs(rays.head())
    ended = await rays.reaches("Failed", seconds=120)
    assert ended["reason"] == "AppFailed"
    assert "no longer knows" in ended["message"]
    assert rays.ray.submissions() == 1


@embedded_only
async def test_a_cluster_that_never_comes_is_given_up_and_running_time_is_not(rays: Rays):
    rays.start_operator()
    spec: dict[str, Any] = {"preRunningDeadlineSeconds": 60}
    manifest = rays.manifest(**spec)
    template = manifest["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]
    template.setdefault("metadata", {})["annotations"] = {"sim.manta.dev/outcome": "hang-pending"}
    await rays.world.user.create(RAYJOBS, rays.world.namespace, manifest)
    status = await rays.reaches("Failed", seconds=90)
    assert status["reason"] == "PreRunningDeadlineExceeded"

    rays.ray.course = lambda _body: Course(running=200)
    await rays.create("other", **spec)
    await rays.reaches("Complete", "other", seconds=400)


async def test_an_image_that_cannot_be_pulled_is_named_on_the_job(rays: Rays):
    rays.start_operator()
    manifest = rays.manifest()
    template = manifest["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]
    template.setdefault("metadata", {})["annotations"] = {
        "sim.manta.dev/outcome": "image-pull-error"
    }
    await rays.world.user.create(RAYJOBS, rays.world.namespace, manifest)
    await rays.world.becomes(
        rays.status, lambda found: "Image" in ready(found).get("reason", ""), seconds=60, pause=0.5
    )
    status = await rays.status()
    assert status["jobDeploymentStatus"] == "Initializing"
    assert status["rayClusterName"] in ready(status)["message"]


async def test_a_dashboard_that_answers_again_leaves_no_trace(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create()
    await running(rays)
    rays.ray.fault(Fault.REFUSES)

    async def unreachable() -> bool:
        return ready(await rays.status())["reason"] == "DashboardUnreachable"

    await rays.world.eventually(unreachable, seconds=60, pause=0.5)
    status = await rays.status()
    assert status["jobStatusCheckFailureStartTime"]
    assert find_condition(status["conditions"], "DashboardReachable") is not None
    rays.ray.fault(None)
    await rays.world.becomes(
        rays.status, lambda found: ready(found)["reason"] == "JobRunning", seconds=60, pause=0.5
    )
    status = await rays.status()
    assert "jobStatusCheckFailureStartTime" not in status
    assert find_condition(status["conditions"], "DashboardReachable") is None


@embedded_only
async def test_a_dashboard_that_never_answers_delays_no_other_job(rays: Rays):
    rays.ray.course = lambda body: forever() if "stuck" in body["submission_id"] else Course()
    rays.start_operator(workers=1)
    await rays.create("stuck")
    await running(rays, name="stuck")
    rays.ray.fault(Fault.SILENT, cluster=rays.head().cluster_uid)
    began = rays.world.loop.time()
    await rays.create("quick")
    await rays.reaches("Complete", "quick", seconds=60)
    assert rays.world.loop.time() - began < 45
    status = await rays.reaches("Failed", "stuck", seconds=400)
    assert status["reason"] == "JobStatusCheckTimeoutExceeded"


@embedded_only
async def test_a_short_absence_of_the_head_ends_no_job_in_sidecar_mode(rays: Rays):
    rays.ray.course = lambda _body: Course(running=120)
    rays.start_operator()
    await rays.create(submissionMode="SidecarMode")
    await rays.reaches("Running")
    await running(rays)
    rays.ray.fault(Fault.ERROR)
    await rays.world.settle(30)
    rays.ray.fault(None)
    status = await rays.reaches("Complete", seconds=500)
    assert status["jobStatus"] == "SUCCEEDED"


async def test_a_head_with_the_driver_in_it_is_not_replaced_in_sidecar_mode(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    await rays.create(submissionMode="SidecarMode")
    status = await running(rays)
    name = status["rayClusterName"]
    cluster = await rays.world.user.get(RAYCLUSTERS, rays.world.namespace, name)
    annotations = cluster.metadata.annotations or {}
    assert annotations["ray.io/disable-provisioned-head-restart"] == "true"
    (head,) = rays.heads()
    await rays.world.user.delete(PODS, rays.world.namespace, head.metadata.name)
    ended = await rays.reaches("Failed", seconds=120)
    assert is_head_lost(ended)
    made = [p for p in rays.world.journal.created.values() if p.metadata.name.find("-head-") > 0]
    assert len(made) == 1


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"rayClusterSpec": None, "clusterSelector": {"other": "key"}},
        {"backoffLimit": -1},
        {"submissionMode": "Pigeon"},
        {"entrypoint": ""},
        {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"containers": []}}}}},
    ],
)
@pytest.mark.usefixtures("lax")
async def test_a_job_of_an_odd_shape_costs_only_itself(rays: Rays, spec: dict[str, Any]):
    rays.start_operator(workers=1)
    manifest = rays.manifest("odd", **spec)
    if not spec:
        manifest["spec"] = {}
    await rays.world.user.create(RAYJOBS, rays.world.namespace, manifest)
    await rays.create("even")
    await rays.reaches("Complete", "even")
    status = await rays.status("odd")
    if status["jobDeploymentStatus"] != "Complete":  # an empty entrypoint is Ray's business
        assert status["jobDeploymentStatus"] in {"ValidationFailed", "Failed"}
        assert status["message"]


async def test_the_head_of_a_job_is_created_before_its_workers(rays: Rays):
    rays.start_operator()
    for number in range(3):
        await rays.create(f"job-{number}")
    for number in range(3):
        await rays.reaches("Complete", f"job-{number}")
    pods = sorted(
        rays.world.journal.created.values(), key=lambda pod: int(pod.metadata.resource_version)
    )
    first: dict[str, str] = {}
    for pod in pods:
        found = pod.metadata.labels or {}
        first.setdefault(found.get("ray.io/cluster", ""), found.get("ray.io/node-type", ""))
    assert set(first.values()) == {"head"}


async def test_a_retry_finds_what_was_saved_and_says_what_went_before(rays: Rays):
    results = iter([JobStatus.FAILED, JobStatus.SUCCEEDED])
    rays.ray.course = lambda _body: Course(result=next(results))
    rays.start_operator()
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "saved"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    made = await rays.world.user.create(CLAIMS, rays.world.namespace, claim)
    manifest = rays.manifest(backoffLimit=1)
    pod = manifest["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    pod["volumes"] = [{"name": "saved", "persistentVolumeClaim": {"claimName": "saved"}}]
    await rays.world.user.create(RAYJOBS, rays.world.namespace, manifest)
    status = await rays.reaches("Complete", seconds=300)
    kept = await rays.world.user.get(CLAIMS, rays.world.namespace, "saved")
    assert kept.metadata.uid == made.metadata.uid
    before, after = status["attempts"]
    assert (before["number"], after["number"]) == (1, 2)
    assert before["jobId"] != after["jobId"] == status["jobId"]
