"""An attempt whose head was ready and is lost before the operator saw the job run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import rfc3339
from controller.ray.api import RAYCLUSTERS
from controller.ray.dashboard.commands import StopJob
from controller.ray.dashboard.responses import JobStatus
from controller.runtime.plan import MergePatch
from tests.ray.cluster.support import NOW
from tests.ray.job.scenes import Scene, cluster

NEVER_AGAIN = {"ray.io/disable-provisioned-head-restart": "true"}
PROVISIONED = {"type": "RayClusterProvisioned", "status": "True"}
NO_HEAD = {"type": "HeadPodReady", "status": "False", "reason": "HeadPodNotFound"}
SUSPENDED = {"type": "RayClusterSuspended", "status": "True"}


def scene(
    annotations: dict[str, str] | None = NEVER_AGAIN,
    conditions: tuple[dict[str, Any], ...] = (PROVISIONED, NO_HEAD),
) -> Scene:
    made = Scene("Initializing", runs_on="", submissionMode="SidecarMode", backoffLimit=1)
    found = cluster("")
    found = msgspec.structs.replace(
        found,
        metadata=msgspec.structs.replace(found.metadata, annotations=annotations),
        status={"state": "ready", "conditions": list(conditions)},
    )
    made.reads.add(RAYCLUSTERS, found)
    return made


def status_after(here: Scene) -> dict[str, Any]:
    """The status that a transition writes; empty if there is none."""
    commit = here.plan().commit
    return dict(commit.patch.get("status", {})) if isinstance(commit, MergePatch) else {}


def test_the_attempt_fails_and_is_retried_on_a_fresh_cluster():
    status = status_after(scene())
    assert status["jobDeploymentStatus"] == "Retrying"
    [attempt] = status["attempts"]
    assert attempt["reason"] == "HeadLost"
    assert attempt["message"] == (
        "HeadLost: the head that the job ran on is lost: the head of cluster example-abcde is gone"
    )


@pytest.mark.parametrize(
    "here",
    [
        scene(annotations=None),
        scene(conditions=(NO_HEAD,)),
        scene(conditions=(PROVISIONED,)),
        scene(conditions=(PROVISIONED, NO_HEAD, SUSPENDED)),
        scene().with_head(),
    ],
    ids=["may restart", "never ready", "not missed", "suspended", "not seen by the cluster yet"],
)
def test_a_head_that_may_come_or_come_back_is_waited_for(here: Scene):
    assert status_after(here).get("jobDeploymentStatus") != "Retrying"


# A head that took the place of the recorded one while no operator was there.


def replaced(mode: str = "K8sJobMode", *, ready: bool = True, **status: Any) -> Scene:
    """The recorded head has restarted in place, and the operator has not asked its Ray yet."""
    made = Scene("Running", submissionMode=mode, status=status).with_cluster()
    container = {"name": "ray-head", "restartCount": 1, "state": {"running": {}}, "ready": ready}
    return made.with_head(containers=[container])


@pytest.mark.parametrize("mode", ["K8sJobMode", "SidecarMode"])
def test_a_job_that_a_submitter_brought_to_the_new_head_is_followed_there(mode: str):
    here = replaced(mode)
    plan = here.plan()
    assert plan.commit is None, "Ray has not been asked yet"
    assert plan.subscriptions
    plan = here.says(JobStatus.RUNNING).plan()
    assert isinstance(plan.commit, MergePatch)
    annotations = plan.commit.patch["metadata"]["annotations"]
    assert annotations["manta.dev/runs-on"] == "example-abcde/uid-of-example-head-aaaaaaaa/1"


def test_a_job_that_has_ended_on_the_new_head_has_ended_as_ray_says():
    status = status_after(replaced().says(JobStatus.SUCCEEDED))
    assert status["jobDeploymentStatus"] == "Complete"


def test_a_job_that_the_new_head_does_not_know_is_lost_with_the_former_one():
    here = replaced()
    assert status_after(here.knows_nothing(since=NOW)) == {}
    assert status_after(here.knows_nothing())["reason"] == "AppFailed"
    assert status_after(here.knows_nothing())["message"].startswith("HeadLost: ")


def test_a_job_that_may_have_come_to_the_new_head_is_stopped_when_its_time_is_over():
    late = {"startTime": rfc3339(NOW - timedelta(minutes=9)), "endTime": rfc3339(NOW)}
    here = replaced(jobDeploymentStatus="Failed", **late)
    assert [type(each.command) for each in here.plan().commands] == [StopJob]
