"""An edit that validation refuses: what had begun is followed to its end, and nothing begins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.apimachinery.conditions import find_condition, rfc3339
from controller.ray.dashboard.responses import JobInfo, JobStatus, NoSuchJob
from controller.ray.job.facts import State
from controller.runtime.plan import Failure
from tests.ray.cluster.support import NOW, writes
from tests.ray.job.scenes import CLUSTER, JOB_ID, Scene, running
from tests.ray.job.test_job_plan import ready, reported, status_of

REFUSED: dict[str, dict[str, Any]] = {
    "a value out of bounds": {"submitterConfig": {"backoffLimit": -1}},
    "a field of a wrong type": {"entrypointNumCpus": "many"},
    "a mode that does not exist": {"submissionMode": "Telepathy"},
    "a suspension without a shutdown": {"suspend": True},
    "a contradiction": {"ttlSecondsAfterFinished": 5},
}
EDITS = pytest.mark.parametrize("edit", REFUSED.values(), ids=list(REFUSED))


@EDITS
def test_a_result_ends_the_job(edit: dict[str, Any]):
    done = status_of(running(**edit).says(JobStatus.SUCCEEDED, end_time=NOW).plan())
    assert (done["jobDeploymentStatus"], done["succeeded"]) == ("Complete", 1)
    lost = status_of(running(**edit).says(JobStatus.FAILED).plan())
    assert (lost["jobDeploymentStatus"], lost["failed"]) == ("Failed", 1)


@EDITS
@pytest.mark.parametrize("state", ["Initializing", "Running"])
def test_the_deadline_ends_it(edit: dict[str, Any], state: str):
    scene = Scene(state, activeDeadlineSeconds=60, **edit).with_cluster().with_head()
    assert status_of(scene.says(JobStatus.RUNNING).plan())["reason"] == "DeadlineExceeded"


@EDITS
def test_it_is_watched_and_the_edit_is_said_to_be_refused(edit: dict[str, Any]):
    made = running(**edit).says(JobStatus.RUNNING).plan()
    assert len(made.subscriptions) == 1
    status = reported(made)
    assert status["jobStatus"] == "RUNNING"
    assert ready(status)["status"] == "True"
    refused = find_condition(status["conditions"], "SpecAccepted")
    assert refused is not None
    assert (refused["status"], refused["reason"]) == ("False", "InvalidRayJobSpec")
    assert made.status is not None
    (event,) = made.status.events
    assert event.note == refused["message"]
    told = running(status={"conditions": status["conditions"]}, **edit)
    again = told.says(JobStatus.RUNNING).plan().status
    assert again is not None
    assert again.events == ()


def test_a_definition_without_conditions_hears_of_a_refused_edit_once_a_generation():
    def events(generation: int) -> int:
        status = {"conditions": None, "observedGeneration": generation}
        made = running(status=status, suspend=True).says(JobStatus.RUNNING).plan()
        assert made.status is not None
        return len(made.status.events)

    assert (events(0), events(1)) == (1, 0)


@EDITS
def test_nothing_new_begins(edit: dict[str, Any]):
    waiting = Scene("Initializing", runs_on="", **edit).plan()
    assert writes(waiting) == []
    assert ready(reported(waiting))["reason"] == "ValidationFailed"
    assert Scene("Initializing", **edit).with_cluster().with_head().plan().commit is None
    for mode in ("HTTPMode", "K8sJobMode"):
        spec: dict[str, Any] = {"submissionMode": mode} | edit
        made = running(**spec).knows_nothing().plan()
        assert (made.commands, made.stages) == ((), ())
    given: dict[str, Any] = {"submissionMode": "InteractiveMode", "jobId": "mine"} | edit
    assert Scene("Waiting", **given).with_cluster().with_head().plan().commit is None


@EDITS
def test_a_job_that_is_not_submitted_says_that_it_waits_for_the_correction(edit: dict[str, Any]):
    for spec, head in (
        ({"submissionMode": "HTTPMode"} | edit, ""),
        ({"submissionMode": "K8sJobMode"} | edit, "uid-of-example-head-aaaaaaaa/0"),
    ):
        if spec["submissionMode"] == "Telepathy":
            continue
        scene = Scene(runs_on=head, **spec).with_cluster().with_head().knows_nothing()
        told = ready(reported(scene.plan()))
        assert told["reason"] == "ValidationFailed"
        assert told["message"].startswith("the job is submitted when the specification is correct")


def test_a_job_that_waits_for_the_correction_is_given_up_before_it_runs_in_time():
    late: dict[str, Any] = {
        "preRunningDeadlineSeconds": 30,
        "submitterConfig": {"backoffLimit": -1},
    }
    waiting = Scene(runs_on="", **late).with_cluster().with_head().knows_nothing()
    assert status_of(waiting.plan())["reason"] == "PreRunningDeadlineExceeded"
    soon = {"startTime": rfc3339(NOW - timedelta(seconds=29))}
    scene = Scene(status=soon, runs_on="", **late).with_cluster().with_head().knows_nothing()
    assert scene.plan().requeue_after == 1
    submitted = running(**late).says(JobStatus.RUNNING).plan()
    assert reported(submitted).get("reason") is None


WRONG_ELSEWHERE = {key: edit for key, edit in REFUSED.items() if "suspend" not in edit}


@pytest.mark.parametrize("edit", WRONG_ELSEWHERE.values(), ids=list(WRONG_ELSEWHERE))
@pytest.mark.parametrize("state", ["Initializing", "Waiting", "Running"])
def test_a_suspension_does_not_wait_for_the_correction_of_another_field(
    edit: dict[str, Any], state: str
):
    asked: dict[str, Any] = {"suspend": True, "shutdownAfterJobFinishes": True} | edit
    edit = {"ttlSecondsAfterFinished": -1} if "ttlSecondsAfterFinished" in edit else edit
    scene = Scene(state, **asked | edit).with_cluster().with_head()
    made = scene.says(JobStatus.RUNNING).plan()
    assert status_of(made)["jobDeploymentStatus"] == "Suspending"


def test_a_suspended_job_with_a_wrong_field_stays_suspended_and_begins_nothing_when_resumed():
    wrong: dict[str, Any] = {"shutdownAfterJobFinishes": True, "backoffLimit": -1}
    kept = Scene("Suspended", suspend=True, **wrong).plan()
    assert kept.commit is None
    assert ready(reported(kept))["reason"] == "Suspended"
    assert find_condition(reported(kept)["conditions"], "SpecAccepted") is not None
    resumed = status_of(Scene("Suspended", suspend=False, **wrong).plan())
    assert resumed["jobDeploymentStatus"] == "ValidationFailed"


def ended(**spec: Any) -> Scene:
    status = {"endTime": rfc3339(NOW - timedelta(minutes=1)), "jobStatus": "SUCCEEDED"}
    return Scene("Complete", status=status, **spec).with_cluster()


def test_what_is_deleted_after_the_end_is_deleted_unless_the_edit_is_about_that():
    told = ended(shutdownAfterJobFinishes=True, backoffLimit=-1).plan()
    assert writes(told) == [f"delete RayCluster {CLUSTER}"]
    assert find_condition(reported(told)["conditions"], "SpecAccepted") is not None
    unclear = ended(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=-1)
    assert writes(unclear.plan()) == []


FIELDS = (
    "attempts",
    "conditions",
    "dashboardURL",
    "endTime",
    "failed",
    "jobId",
    "jobStatus",
    "jobStatusCheckFailureStartTime",
    "message",
    "rayClusterName",
    "rayClusterStatus",
    "rayJobInfo",
    "reason",
    "startTime",
    "succeeded",
)
TIMES = st.sampled_from(["2026-08-20T09:59:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | TIMES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "status", "reason", "number", "rayClusterName", "endTime"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=4,
)
STATUSES = st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=4)
ANSWERS = st.sampled_from([None, NoSuchJob(), *(JobInfo(JOB_ID, each) for each in JobStatus)])


@settings(max_examples=100)
@given(
    state=st.sampled_from([each.value for each in State]) | st.text(max_size=4),
    status=STATUSES,
    answer=ANSWERS,
    there=st.booleans(),
    deleted=st.booleans(),
    runs_on=st.sampled_from(["", "uid-of-example-head-aaaaaaaa/0", "?", "a/b/c"]),
    mode=st.sampled_from(["HTTPMode", "K8sJobMode", "SidecarMode", "InteractiveMode"]),
)
def test_no_status_is_too_odd(  # noqa: PLR0917
    state: str,
    status: dict[str, Any],
    answer: Any,
    there: bool,
    deleted: bool,
    runs_on: str,
    mode: str,
):
    meta = {"deletionTimestamp": "2026-08-20T09:59:59Z"} if deleted else {}
    scene = Scene(state, status=status, meta=meta, runs_on=runs_on, submissionMode=mode)
    if there:
        scene.with_cluster().with_head().with_submitter("Failed").answers(answer)
    seen = scene.kind.observe("default/example", scene.reads)
    assert seen is not None
    plan = scene.kind.plan(seen, NOW)
    for stage in plan.stages:
        failures = (Failure(stage[0], "Forbidden", "no"),)
        assert scene.kind.status_after(seen, plan, failures, NOW) is not None
