"""Whatever stands in the status or the annotations of a RayJob, planning it does not raise."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.ray.dashboard import JobInfo, JobStatus, NoSuchJob
from controller.ray.job.facts import State
from controller.runtime.plan import Failure
from tests.ray.cluster.support import NOW
from tests.ray.job.scenes import JOB_ID, Scene

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
