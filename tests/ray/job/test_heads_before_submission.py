"""A RayJob in K8sJobMode whose head is lost before its submitter, a Job, has been started."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import rfc3339
from controller.kube.resources import JOBS
from controller.ray.dashboard.responses import JobStatus
from controller.runtime.kind import CreateError, LogText
from controller.runtime.plan import Create, MergePatch
from tests.ray.cluster.support import NOW
from tests.ray.job.scenes import CLUSTER, JOB_ID, Scene, ended, submitter

WAITING = {"name": "mine", "state": {"waiting": {"reason": "ContainerCreating"}}}
RUNNING = {"name": "mine", "state": {"running": {}}}
TRIED = {"name": "mine", "restartCount": 1, "state": {"waiting": {}}}
SILENT = {"jobStatusCheckFailureStartTime": rfc3339(NOW - timedelta(minutes=10))}
"""No head has answered for as long as is waited for one."""

LOG = "batch.kubernetes.io/controller-uid=uid-of-submitter"
RUNS_ON = "manta.dev/runs-on"
RESTARTED = f"{CLUSTER}/uid-of-example-head-aaaaaaaa/1"
REPLACED = f"{CLUSTER}/uid-of-example-head-bbbbbbbb/0"


def scene(runs_on: str | None = None, **status: Any) -> Scene:
    """The head of the attempt is lost; `runs_on` is what was recorded instead of it."""
    spec = {"submissionMode": "K8sJobMode", "status": status}
    if runs_on is None:
        return Scene("Running", **spec).with_cluster()
    stamps = {RUNS_ON: runs_on, "manta.dev/submitted": f"{JOB_ID} digests"}
    return Scene("Running", runs_on="", meta={"annotations": stamps}, **spec).with_cluster()


def restarted(here: Scene, *, ready: bool = False) -> Scene:
    """Its head was restarted in place."""
    container = {"name": "ray-head", "restartCount": 1, "state": {"running": {}}, "ready": ready}
    return here.with_head(containers=[container])


def replaced(here: Scene) -> Scene:
    return here.with_head(name="example-head-bbbbbbbb")


def pending(here: Scene) -> Scene:
    return here.with_submitter().with_submitter_pod(WAITING, phase="Pending")


def unscheduled(here: Scene) -> Scene:
    return here.with_submitter().with_submitter_pod(phase="Pending")


def without_pod(here: Scene) -> Scene:
    return here.with_submitter()


def refused(here: Scene) -> Scene:
    here.reads.refused["Job/default/example"] = CreateError("Forbidden", "exceeded quota")
    return here


def recorded(here: Scene) -> str | None:
    """The head that the plan records; None if it records none."""
    commit = here.plan().commit
    patch = commit.patch if isinstance(commit, MergePatch) else {}
    return patch.get("metadata", {}).get("annotations", {}).get(RUNS_ON)


def is_lost(here: Scene) -> bool:
    here.reads.logs[LOG] = LogText(unavailable="it is gone")
    commit = here.plan().commit
    status = commit.patch.get("status", {}) if isinstance(commit, MergePatch) else {}
    return status.get("message", "").startswith("HeadLost: ")


UNSTARTED = pytest.mark.parametrize("submitter", [pending, unscheduled, without_pod, refused])


@UNSTARTED
@pytest.mark.parametrize(("head", "new"), [(restarted, RESTARTED), (replaced, REPLACED)])
def test_the_next_head_gets_a_job_whose_submitter_was_not_started(
    submitter: Any, head: Any, new: str
):
    assert recorded(submitter(head(scene()))) == new


@UNSTARTED
def test_a_head_that_is_gone_is_forgotten_and_waited_for(submitter: Any):
    here = submitter(scene(**SILENT))
    assert recorded(here) == f"{CLUSTER}/"
    here = submitter(scene(f"{CLUSTER}/", **SILENT))
    plan = here.plan()
    assert plan.commit is None
    assert not any(isinstance(write, Create) for stage in plan.stages for write in stage)


def test_a_submitter_that_starts_before_there_is_another_head_brings_the_job_to_it():
    here = scene(f"{CLUSTER}/", **SILENT).with_submitter().with_submitter_pod(RUNNING)
    assert here.plan().commit is None
    assert recorded(restarted(here)) == RESTARTED


def test_a_submitter_that_has_ended_without_a_head_waits_for_none():
    here = scene(f"{CLUSTER}/", **SILENT).with_submitter("Failed").with_submitter_pod(ended(1))
    assert is_lost(here)


@pytest.mark.parametrize(
    "here",
    [
        pytest.param(scene().with_submitter().with_submitter_pod(RUNNING), id="it runs"),
        pytest.param(scene().with_submitter().with_submitter_pod(TRIED), id="it is tried again"),
        pytest.param(scene().with_submitter().with_submitter_pod(ended(0)), id="it is done"),
        pytest.param(scene().with_submitter("Complete"), id="it was done"),
        pytest.param(scene(), id="it may have been made and deleted"),
        pytest.param(pending(scene(jobStatus="PENDING")), id="Ray has known the job"),
    ],
)
def test_a_job_that_may_have_been_submitted_is_lost_with_its_head(here: Scene):
    assert is_lost(restarted(here))


def test_pods_of_a_submitter_that_the_job_has_counted_as_failed_were_started():
    job = submitter()
    job = msgspec.structs.replace(job, status=msgspec.structs.replace(job.status, failed=1))
    here = restarted(scene())
    here.reads.add(JOBS, job)
    here.with_submitter_pod(WAITING, phase="Pending")
    assert is_lost(here)


def test_an_unknown_create_of_the_submitter_may_have_submitted():
    here = refused(restarted(scene()))
    here.reads.pending = frozenset({"submitter"})
    assert is_lost(here)


def test_a_terminating_head_is_kept_because_the_submitter_may_still_reach_it():
    assert recorded(pending(scene()).with_head(terminating=True)) is None


def test_a_job_that_ray_reports_is_followed_where_it_is():
    here = pending(restarted(scene(), ready=True)).says(JobStatus.RUNNING)
    assert recorded(here) == RESTARTED


def test_a_mark_of_an_earlier_attempt_counts_for_nothing():
    here = (
        scene(f"{CLUSTER}/", jobId="another", **SILENT).with_submitter().with_submitter_pod(RUNNING)
    )
    assert is_lost(here)
