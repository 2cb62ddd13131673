"""What a RayJob says about itself while nothing moves: first causes, failed writes, wakes."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.dashboard.responses import JobStatus
from controller.ray.job import JobCollector
from controller.runtime.kind import CreateError
from controller.runtime.plan import Delete, Failure, Target
from tests.ray.cluster.support import NOW, pod
from tests.ray.job.rayjobs import job_manifest, rayjob
from tests.ray.job.scenes import CLUSTER, Scene, running


def report(scene: Scene, *failures: Failure) -> Any:
    seen = scene.kind.observe("default/example", scene.reads)
    assert seen is not None
    patch = scene.kind.status_after(seen, scene.kind.plan(seen, NOW), failures, NOW)
    assert patch is not None
    return patch


def condition(patch: Any, kind: str = "Ready") -> dict[str, Any]:
    return next((c for c in patch.wanted["conditions"] if c["type"] == kind), {})


def refused(scene: Scene, message: str) -> Failure:
    seen = scene.kind.observe("default/example", scene.reads)
    assert seen is not None
    write = scene.kind.plan(seen, NOW).stages[0][0]
    return Failure(write, "Forbidden", message)


def test_a_cluster_that_cannot_be_created_is_said_with_the_remedy_and_one_event():
    scene = Scene("Initializing", runs_on="")
    failure = refused(scene, "exceeded quota: small, requested: count/rayclusters=1")
    patch = report(scene, failure)
    assert condition(patch)["reason"] == "QuotaExceeded"
    assert "exceeded quota" in condition(patch)["message"]
    (event,) = patch.events
    assert (event.type, event.reason) == ("Warning", "FailedToCreateRayCluster")
    told = Scene("Initializing", runs_on="", status={"conditions": [condition(patch)]})
    assert report(told, failure).events == ()


def test_a_submitter_that_cannot_be_created_has_kuberays_event():
    scene = running(submissionMode="K8sJobMode")
    patch = report(scene, refused(scene, "admission webhook denied the request"))
    assert [event.reason for event in patch.events] == ["FailedToCreateRayJobSubmitter"]


def test_what_hinders_the_cleaning_up_is_said_beside_the_result():
    spec: dict[str, Any] = {"shutdownAfterJobFinishes": True}
    ended = {"endTime": "2026-08-20T09:00:00Z", "jobStatus": "SUCCEEDED"}
    scene = Scene("Complete", status=ended, **spec).with_cluster()
    target = Target(RAYCLUSTERS, "default", CLUSTER, "cluster")
    patch = report(scene, Failure(Delete(target, "uid"), "Forbidden", "no right to delete"))
    assert condition(patch, "CleanedUp")["status"] == "False"
    assert "no right to delete" in condition(patch, "CleanedUp")["message"]
    assert condition(patch)["reason"] == "x", "the result stays"
    assert condition(report(scene), "CleanedUp") == {}


def test_a_submitters_refusal_is_said_as_long_as_it_lasts():
    scene = running(submissionMode="K8sJobMode").knows_nothing()
    scene.reads.refused["Job/default/example"] = CreateError("Forbidden", "no pods here")
    said = condition(report(scene))
    assert said["message"].startswith("Job example: cannot be created: no pods here; change")
    assert said["reason"] == "AdmissionDenied"


def test_a_submitters_pod_says_why_it_does_not_start():
    scene = running(submissionMode="K8sJobMode").with_submitter().knows_nothing()
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    labels = {"ray.io/node-type": "submitter", "ray.io/originated-from-cr-name": "example"}
    status = {"name": "mine", "state": {"waiting": waiting}}
    scene.reads.add(
        PODS,
        pod(
            "example-x",
            phase="Pending",
            labels=labels,
            owner_uid="uid-of-submitter",
            containers=[status],
        ),
    )
    said = condition(report(scene))
    assert said["reason"] == "ImagePullBackOff"
    assert said["message"].startswith("submitter: pod example-x")


def test_since_when_the_dashboard_is_out_of_reach_is_said_twice():
    patch = report(running().fails(60))
    for kind in ("Ready", "DashboardReachable"):
        said = condition(patch, kind)
        assert "2026-08-20T09:59:00Z" in said["message"]
        assert "connection refused" in said["message"]
    assert condition(patch)["reason"] == "DashboardUnreachable"
    assert condition(report(running().says(JobStatus.RUNNING)), "DashboardReachable") == {}


def test_a_job_of_another_head_that_ray_knows_is_no_lost_job():
    scene = Scene("Running").with_cluster().with_head(restarts=1).says(JobStatus.RUNNING)
    assert condition(report(scene))["reason"] == "JobRunning"
    unknown = Scene("Running").with_cluster().with_head(restarts=1).knows_nothing(since=NOW)
    assert condition(report(unknown))["reason"] == "HeadLost"


@pytest.mark.parametrize(
    ("state", "spec"),
    [
        ("Suspended", {"suspend": True, "shutdownAfterJobFinishes": True}),
        ("ValidationFailed", {"backoffLimit": -1}),
        ("Waiting", {"submissionMode": "InteractiveMode", "entrypoint": None}),
        ("Initializing", {}),
        ("Running", {}),
        ("Complete", {}),
        ("Failed", {}),
        ("Retrying", {}),
        ("Suspending", {"suspend": True, "shutdownAfterJobFinishes": True}),
    ],
)
def test_only_events_wake_a_job_that_has_no_deadline(state: str, spec: dict[str, Any]):
    scene = Scene(state, **spec).with_cluster("").with_head()
    if state in {"Running", "Suspending"}:
        scene.says(JobStatus.RUNNING)
    if state == "Retrying":
        scene.with_cluster(terminating=True)
    assert scene.plan().requeue_after is None


def test_the_status_of_the_cluster_is_copied_and_what_has_gone_from_it_goes():
    copied = {"rayClusterStatus": {"state": "", "gone": 1, "head": {"podIP": "1", "old": "2"}}}
    scene = running(status=copied).says(JobStatus.RUNNING)
    scene.reads.get(RAYCLUSTERS, f"default/{CLUSTER}").status["head"] = {"podIP": "3"}
    wanted = report(scene).wanted["rayClusterStatus"]
    assert wanted["gone"] is None
    assert wanted["head"] == {"old": None, "podIP": "3"}
    assert wanted["state"] == "ready"


def scraped(**status: Any) -> list[str]:
    job = rayjob(job_manifest() | {"status": status})
    registry = CollectorRegistry()
    registry.register(JobCollector(lambda: [job]))
    text = generate_latest(registry).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


IDENTITY = 'name="example",namespace="default",uid="uid-of-job"'


def test_a_job_without_status_has_its_info_and_an_empty_state():
    assert scraped() == [
        f"kuberay_job_info{{{IDENTITY}}} 1.0",
        f'kuberay_job_deployment_status{{deployment_status="",{IDENTITY}}} 1.0',
        f"manta_job_failed_attempts{{{IDENTITY}}} 0.0",
        f"manta_job_disrupted_attempts{{{IDENTITY}}} 0.0",
    ]


def test_each_attempt_that_ended_has_its_duration_under_the_retries_before_it():
    lines = scraped(
        jobDeploymentStatus="Complete",
        startTime="2026-01-01T00:10:00Z",
        endTime="2026-01-01T00:11:00Z",
        failed=1,
        succeeded=1,
        attempts=[
            {
                "number": 1,
                "result": "Failed",
                "startTime": "2026-01-01T00:00:00Z",
                "endTime": "2026-01-01T00:00:30Z",
            },
            {"number": 2, "result": "Succeeded"},
        ],
    )
    retried, completed = (line for line in lines if "duration" in line)
    assert 'job_deployment_status="Retrying"' in retried
    assert 'retry_count="0"' in retried
    assert retried.endswith(" 30.0")
    assert 'job_deployment_status="Complete"' in completed
    assert 'retry_count="1"' in completed
    assert completed.endswith(" 60.0")


def test_the_last_failure_counts_once_and_under_the_failures_before_it():
    lines = scraped(
        jobDeploymentStatus="Failed",
        startTime="2026-01-01T00:00:00Z",
        endTime="2026-01-01T00:00:30Z",
        failed=1,
        attempts=[
            {
                "number": 1,
                "result": "Failed",
                "startTime": "2026-01-01T00:00:00Z",
                "endTime": "2026-01-01T00:00:30Z",
            }
        ],
    )
    (duration,) = (line for line in lines if "duration" in line)
    assert 'job_deployment_status="Failed"' in duration
    assert 'retry_count="0"' in duration
    assert duration.endswith(" 30.0")
