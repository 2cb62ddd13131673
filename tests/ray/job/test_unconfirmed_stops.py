"""A job that nobody follows any more and that may still run: only Ray's word ends it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import find_condition, rfc3339
from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.dashboard.commands import (
    CommandDone,
    CommandExpired,
    CommandOutcome,
    CommandRefused,
    HeadCommand,
    StopJob,
)
from controller.ray.dashboard.responses import JobInfo, JobStatus, NoSuchJob
from controller.runtime.kind import LogText
from controller.runtime.plan import Delete, LogTail, MergePatch, Plan
from tests.ray.cluster.support import NOW, writes
from tests.ray.job.scenes import CLUSTER, JOB_ID, Scene, head_pod, running
from tests.ray.job.test_job_plan import reported, status_of

STOP = f"stop/{JOB_ID}"
SELECTED: dict[str, Any] = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": CLUSTER}}
STORED = {"type": "JobStopped", "status": "False", "reason": "StopNotConfirmed", "message": ""}


def overdue(**more: Any) -> Scene:
    """A running job whose deadline has passed."""
    return running(activeDeadlineSeconds=60, **more)


def failed(*, seconds: float = 0, reason: str = "DeadlineExceeded", **more: Any) -> Scene:
    """A job on a shared cluster that has failed so many seconds ago, and nobody saw its end."""
    status = {
        "jobStatus": "RUNNING",
        "reason": reason,
        "endTime": rfc3339(NOW - timedelta(seconds=seconds)),
        "conditions": [STORED],
    } | more.pop("status", {})
    scene = Scene("Failed", status=status, **(SELECTED | more))
    return scene.with_cluster(owner="somebody").with_head()


def stop_of(plan: Plan) -> StopJob:
    (order,) = plan.commands
    assert isinstance(order, HeadCommand)
    assert isinstance(order.command, StopJob)
    return order.command


def unconfirmed(status: dict[str, Any]) -> str:
    found = find_condition(status["conditions"], "JobStopped")
    return "" if found is None else str(found["message"])


def test_the_failure_stores_what_ray_said_last():
    status = status_of(overdue().says(JobStatus.RUNNING).plan())
    assert status["jobStatus"] == "RUNNING"
    assert f"ray job stop {JOB_ID}" in unconfirmed(status)
    stopped = status_of(overdue().says(JobStatus.STOPPED).plan())
    assert (stopped["jobStatus"], stopped["reason"]) == ("STOPPED", "DeadlineExceeded")
    assert not unconfirmed(stopped)


def test_a_failed_job_is_stopped_and_asked_about_for_ten_minutes_after_its_end():
    made = failed(seconds=590).says(JobStatus.RUNNING).plan()
    assert stop_of(made).deadline == NOW + timedelta(seconds=10)
    assert len(made.subscriptions) == 1
    assert made.requeue_after == 10
    given_up = failed(seconds=600).says(JobStatus.RUNNING).plan()
    assert (given_up.commands, given_up.subscriptions, given_up.requeue_after) == ((), (), None)
    assert "gave up" in unconfirmed(reported(given_up))


@pytest.mark.parametrize("outcome", [None, CommandRefused("no"), CommandExpired("no answer")])
def test_a_stop_that_was_refused_or_given_up_is_no_stop(outcome: CommandOutcome | None):
    scene = failed(seconds=30).fails(20)
    if outcome is not None:
        scene.dashboards.outcomes[STOP] = outcome
    text = unconfirmed(reported(scene.plan()))
    assert f"job {JOB_ID} may still run on cluster {CLUSTER}" in text
    assert "connection refused" in text


@pytest.mark.parametrize("value", [JobInfo(JOB_ID, JobStatus.STOPPED), NoSuchJob()])
def test_the_word_of_ray_confirms_the_stop(value: JobInfo | NoSuchJob):
    scene = failed(seconds=30)
    scene.dashboards.outcomes[STOP] = CommandDone(value)
    made = scene.plan()
    assert made.commands == ()
    assert not unconfirmed(reported(made))


def test_the_end_that_ray_reports_follows_the_failure_after_three_seconds():
    early = failed(seconds=2).says(JobStatus.STOPPED, end_time=NOW, message="stopped").plan()
    assert "jobStatus" not in reported(early)
    assert early.requeue_after == 1
    late = reported(failed(seconds=3).says(JobStatus.STOPPED, end_time=NOW, message="x").plan())
    assert late["jobStatus"] == "STOPPED"
    assert late["rayJobInfo"] == {"endTime": rfc3339(NOW)}
    assert "message" not in late, "the message names the deadline"


def test_a_failed_status_that_nobody_heard_from_ray_is_no_end():
    reason = "JobDeploymentStatusTransitionGracePeriodExceeded"
    made = failed(reason=reason, status={"jobStatus": "FAILED"}).fails(300).plan()
    assert stop_of(made)
    known = {"jobStatus": "FAILED", "rayJobInfo": {"endTime": rfc3339(NOW)}}
    assert failed(reason=reason, status=known).plan().commands == ()


def test_the_cluster_of_a_failed_job_waits_ten_seconds_for_the_jobs_end_and_no_longer():
    def scene(seconds: float) -> Scene:
        ended = {"endTime": rfc3339(NOW - timedelta(seconds=seconds)), "jobStatus": "RUNNING"}
        made = Scene("Failed", status=ended, shutdownAfterJobFinishes=True)
        return made.with_cluster().with_head().fails(20)

    waiting = scene(9).plan()
    assert writes(waiting) == []
    assert waiting.requeue_after == 1
    assert writes(scene(10).plan()) == [f"delete RayCluster {CLUSTER}"]


@pytest.mark.parametrize(("seconds", "deleted"), [(9, False), (10, True)])
def test_a_submitter_that_outlives_the_failure_goes_too(seconds: float, deleted: bool):
    scene = failed(seconds=seconds, submissionMode="K8sJobMode").with_submitter()
    found = [write for stage in scene.fails(20).plan().stages for write in stage]
    assert [type(write) for write in found] == ([Delete] if deleted else [])


def submitting(scene: Scene) -> Scene:
    """A submitter's pod is there, although its Job is gone."""
    raw = {
        "metadata": {
            "name": "example-x",
            "namespace": "default",
            "labels": {
                "ray.io/originated-from-cr-name": "example",
                "ray.io/node-type": "submitter",
            },
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "example", "uid": "a-job"}
                | {"controller": True}
            ],
        },
        "spec": {"containers": [{"name": "mine"}]},
        "status": {"phase": "Running"},
    }
    scene.reads.add(PODS, msgspec.convert(raw, Pod))
    return scene


def test_a_job_that_ray_does_not_know_yet_may_come_while_its_submitter_lives():
    def scene() -> Scene:
        made = failed(status={"jobStatus": None}, submissionMode="K8sJobMode")
        made.dashboards.outcomes[STOP] = CommandDone(NoSuchJob())
        return made.knows_nothing()

    assert not unconfirmed(reported(scene().plan()))
    assert unconfirmed(reported(submitting(scene()).plan()))
    arrived = scene().says(JobStatus.RUNNING).plan()
    assert stop_of(arrived).id == f"{STOP}/late"


def suspending(**more: Any) -> Scene:
    spec: dict[str, Any] = SELECTED | {"suspend": True}
    return Scene("Suspending", **(spec | more)).with_cluster(owner="somebody").with_head()


def test_a_suspension_that_leaves_the_cluster_waits_for_the_word_of_ray():
    scene = suspending(submissionMode="K8sJobMode").with_submitter().fails(3600)
    made = scene.plan()
    assert made.commit is None
    assert stop_of(made).deadline > NOW + timedelta(days=30)
    assert writes(made) == ["delete Job example"]
    assert "the suspension waits for it" in unconfirmed(reported(made))
    assert suspending().fails(3600).plan().commit is None, "without a submitter too"
    stopped = suspending()
    stopped.dashboards.outcomes[STOP] = CommandDone(JobInfo(JOB_ID, JobStatus.STOPPED))
    status = status_of(stopped.plan())
    assert status["jobDeploymentStatus"] == "Suspended"
    assert status["jobId"] is None
    assert not writes(stopped.plan()), "the cluster stays"


def test_a_resumed_job_that_a_person_submits_waits_for_another_id_on_a_cluster_that_knows_it():
    def plan(given: str, early: str = "") -> Plan:
        attempts = [{"number": 1, "rayClusterName": CLUSTER, "jobId": "mine"}]
        attempts.append({"number": 2, "rayClusterName": CLUSTER, "jobId": early})
        status = {"jobId": None, "attempts": attempts}
        spec: dict[str, Any] = SELECTED | {"submissionMode": "InteractiveMode", "jobId": given}
        scene = Scene("Waiting", status=status, **spec)
        return scene.with_cluster(owner="somebody").with_head().plan()

    for early in ("", "another"):
        assert status_of(plan("another", early))["jobId"] == "another"
    waiting = plan("mine")
    assert waiting.commit is None
    ready = find_condition(reported(waiting)["conditions"], "Ready")
    assert ready is not None
    assert ready["message"].startswith("spec.jobId mine is of an earlier attempt: submit the job")


@pytest.mark.parametrize("state", ["Running", "Failed", "Suspending"])
def test_deletion_tries_for_thirty_seconds_and_says_what_may_run_on(state: str):
    meta = {"deletionTimestamp": rfc3339(NOW)}
    status = {"endTime": rfc3339(NOW - timedelta(hours=1)), "jobStatus": "RUNNING"}
    scene = Scene(state, meta=meta, status=status, **SELECTED)
    scene.with_cluster(owner="somebody").with_head().fails(20)
    made = scene.plan()
    assert stop_of(made).id == f"{STOP}/deleted"
    assert stop_of(made).deadline == NOW + timedelta(seconds=30)
    commit = scene.plan(seconds=30).commit
    assert isinstance(commit, MergePatch)
    assert commit.patch == {"metadata": {"finalizers": []}}
    assert commit.on_success is not None
    assert commit.on_success.reason == "StopNotConfirmed"
    assert f"job {JOB_ID} may still run on cluster {CLUSTER}" in commit.on_success.note


@pytest.mark.parametrize("orphaned", [False, True])
def test_a_cluster_that_goes_with_its_owner_needs_no_word_about_its_job(orphaned: bool):
    finalizers = ["ray.io/rayjob-finalizer", *(["orphan"] if orphaned else [])]
    meta = {"deletionTimestamp": rfc3339(NOW), "finalizers": finalizers}
    commit = running(meta=meta).fails(20).plan(seconds=30).commit
    assert isinstance(commit, MergePatch)
    assert (commit.on_success is not None) == orphaned


@pytest.mark.parametrize(
    ("state", "runs_on"),
    [
        ({"waiting": {"reason": "ImagePullBackOff"}}, False),
        ({"running": {}}, True),
        ({"terminated": {"exitCode": 1}}, True),
    ],
)
def test_a_sidecar_has_submitted_nothing_where_ray_was_never_started(
    state: dict[str, Any], runs_on: bool
):
    scene = Scene(
        "Initializing", runs_on="", submissionMode="SidecarMode", activeDeadlineSeconds=60
    ).with_cluster("")
    container = {"name": "ray-head", "restartCount": 0, "state": state}
    # Its phase is no proof: a pod is Pending until each of its containers has been started.
    scene.reads.add(PODS, head_pod(containers=[container], phase="Pending", ready=False))
    for log in scene.plan().lookups:
        assert isinstance(log, LogTail)
        scene.reads.logs[log.label_selector] = LogText(unavailable="it never ran")
    status = status_of(scene.plan())
    assert status["reason"] == "DeadlineExceeded"
    told = find_condition(status["conditions"], "JobStopped")
    assert (told is not None) is (runs_on and "terminated" not in state)
