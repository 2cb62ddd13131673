"""A submitter whose pods are refused: its Job has none, and the RayJob says why."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import find_condition, rfc3339
from controller.kube.resources import JOBS
from controller.ray.dashboard.responses import JobStatus
from controller.runtime.kind import FailedCreate, LogText
from controller.runtime.plan import Delete, FailedCreates, MergePatch, Plan
from tests.ray.cluster.support import NOW
from tests.ray.job.scenes import Scene, ended, running, submitter

FIELD = "spec.submitterPodTemplate"
TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "mine", "image": "ray"}]}}
FLOOR = "the pod is forbidden: minimum memory usage per Container is 512Mi, but request is 200Mi"


def without_pod(*, seconds_ago: float = 60, suspend: bool = False, **spec: Any) -> Scene:
    """A job whose submitter was created so long ago and has no pod."""
    scene = running(submissionMode="K8sJobMode", **spec).knows_nothing()
    job = submitter()
    created = rfc3339(NOW - timedelta(seconds=seconds_ago))
    metadata = msgspec.structs.replace(job.metadata, creation_timestamp=created)
    template = {"spec": {"containers": [{"name": "mine" if spec else "ray-job-submitter"}]}}
    changed = msgspec.structs.replace(job.spec, suspend=suspend, template=template)
    scene.reads.add(JOBS, msgspec.structs.replace(job, metadata=metadata, spec=changed))
    return scene


def told(scene: Scene, message: str = "", *, ago: float = 1, unavailable: str = "") -> Scene:
    found = FailedCreate(NOW - timedelta(seconds=ago), message, unavailable)
    scene.reads.failed_creates["uid-of-submitter"] = found
    return scene


def ready(scene: Scene) -> dict[str, Any]:
    patch = scene.plan().status
    assert patch is not None
    found = find_condition(patch.wanted["conditions"], "Ready")
    assert found is not None
    return dict(found)


def test_its_events_are_read_when_it_has_had_no_pod_for_some_seconds_and_then_seldom():
    assert without_pod(seconds_ago=6).plan().lookups == (
        FailedCreates("default", "uid-of-submitter", NOW),
    )
    young = without_pod(seconds_ago=2).plan()
    assert (young.lookups, young.requeue_after) == ((), 3)
    known = told(without_pod(), FLOOR, ago=10).plan()
    assert (known.lookups, known.requeue_after) == ((), 20)
    assert told(without_pod(), FLOOR, ago=31).plan().lookups != ()
    assert without_pod().with_submitter_pod().plan().lookups == (), "it has a pod"


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        ({}, f"of the submitter: give {FIELD} a container ray-job-submitter that has them"),
        ({"submitterPodTemplate": TEMPLATE}, f"of container mine in {FIELD}"),
    ],
)
def test_what_a_limit_range_refuses_is_told_with_the_field_that_sizes_it(
    spec: dict[str, Any], remedy: str
):
    scene = told(without_pod(**spec), FLOOR)
    said = ready(scene)
    assert said["reason"] == "LimitRangeViolated"
    assert said["message"] == (
        f"submitter: Job example cannot create its pod: {FLOOR}; change the resources {remedy}, or "
        "ask for another LimitRange"
    )
    patch = scene.plan().status
    assert patch is not None
    assert [event.reason for event in patch.events] == ["FailedToCreateRayJobSubmitter"]


def test_without_the_right_to_read_events_it_is_said_where_to_look_and_what_to_grant():
    said = ready(told(without_pod(), unavailable="events is forbidden"))
    assert said["reason"] == "PodsMissing"
    for words in ("kubectl describe job example", "events is forbidden", "the verb list on events"):
        assert words in said["message"]


def test_an_api_server_that_is_slow_is_no_policy_that_the_user_could_obey():
    said = ready(told(without_pod(), "Timeout: request did not complete within 34s"))
    assert said["reason"] == "WriteRefused"
    assert said["message"].endswith("did not complete within 34s; Kubernetes tries again")


def test_a_queue_that_has_suspended_the_job_is_the_cause():
    scene = without_pod(suspend=True)
    assert scene.plan().lookups == ()
    said = ready(scene)
    assert said["reason"] == "SubmitterSuspended"
    assert "such as Kueue" in said["message"]


def test_the_deadline_before_running_covers_a_submitter_that_never_had_a_pod():
    def reason(scene: Scene) -> str:
        commit = scene.plan().commit
        return commit.patch["status"]["reason"] if isinstance(commit, MergePatch) else ""

    limit = {"preRunningDeadlineSeconds": 50}
    scene = told(without_pod(**limit), FLOOR)
    scene.reads.logs["batch.kubernetes.io/controller-uid=uid-of-submitter"] = LogText("")
    assert reason(scene) == "PreRunningDeadlineExceeded"
    commit = scene.plan().commit
    assert isinstance(commit, MergePatch)
    assert "minimum memory usage per Container" in commit.patch["status"]["message"]
    assert reason(told(without_pod(preRunningDeadlineSeconds=70), FLOOR)) == ""
    assert reason(scene.with_submitter_pod()) == "", "it runs"


# -- a proxy beside the submitter ----------------------------------------------------------------


PROXY: dict[str, Any] = {"name": "istio-proxy", "state": {"running": {}}}
WORKING: dict[str, Any] = {"name": "mine", "state": {"running": {}}}


def meshed(*containers: dict[str, Any], **more: Any) -> Scene:
    """A job in K8sJobMode whose submitter's pod has these containers."""
    made = running(submissionMode="K8sJobMode", **more).with_submitter()
    made.reads.logs["batch.kubernetes.io/controller-uid=uid-of-submitter"] = LogText("x")
    return made.with_submitter_pod(*containers)


def writes(plan: Plan) -> list[Any]:
    """The writes to the submitter's Job and pods."""
    every = (*chain.from_iterable(plan.stages), *plan.independent)
    return [each for each in every if each.target.scope == "submitter"]


def next_state(scene: Scene) -> str:
    commit = scene.plan().commit
    return commit.patch["status"]["jobDeploymentStatus"] if isinstance(commit, MergePatch) else ""


@pytest.mark.parametrize("containers", [(ended(0, 1), PROXY), (PROXY, ended(0, 1))])
def test_a_job_is_complete_as_soon_as_its_submitter_has_ended_whatever_the_proxy_does(
    containers: tuple[dict[str, Any], ...],
):
    assert next_state(meshed(*containers).says(JobStatus.SUCCEEDED)) == "Complete"
    assert next_state(meshed(WORKING, PROXY).says(JobStatus.SUCCEEDED)) == ""


def test_a_failed_job_is_not_tried_again_by_a_submitter_that_has_failed_beside_a_proxy():
    scene = meshed(ended(1, 1), PROXY).says(JobStatus.FAILED)
    (write,) = (each for each in writes(scene.plan()) if isinstance(each, MergePatch))
    assert write.patch == {"spec": {"backoffLimit": 0}}
    assert next_state(stopped(scene)) == "Failed"


def stopped(scene: Scene) -> Scene:
    job = submitter()
    spec = msgspec.structs.replace(job.spec, backoff_limit=0)
    scene.reads.add(JOBS, msgspec.structs.replace(job, spec=spec))
    return scene


def test_a_submitter_that_failed_beside_a_proxy_is_tried_again_as_without_one():
    (delete,) = (
        each
        for each in writes(meshed(ended(1, 30), PROXY).knows_nothing().plan())
        if isinstance(each, Delete)
    )
    assert delete.uid == "uid-of-example-x"
    assert delete.on_success is not None
    assert "mine ended with exit code 1 (Error)" in delete.on_success.note
    assert "istio-proxy kept the pod alive" in delete.on_success.note


@pytest.mark.parametrize(
    "scene",
    [
        meshed(ended(1, 5), PROXY),
        meshed(ended(0, 30), PROXY),
        meshed(WORKING, PROXY),
        meshed(ended(1, 30), PROXY).with_submitter("Failed"),
    ],
    ids=["the proxy may end yet", "it has succeeded", "it runs", "the job has failed"],
)
def test_no_other_pod_of_a_submitter_is_deleted(scene: Scene):
    assert [each for each in writes(scene.knows_nothing().plan()) if isinstance(each, Delete)] == []


def test_a_submitter_without_attempts_left_has_failed_and_says_how():
    scene = stopped(meshed(ended(2, 60), PROXY).knows_nothing())
    commit = scene.plan().commit
    assert isinstance(commit, MergePatch)
    assert commit.patch["status"]["reason"] == "SubmissionFailed"
    assert "exit code 2 (Error)" in commit.patch["status"]["message"]


@pytest.mark.parametrize("state", ["Complete", "Failed"])
def test_nothing_lives_on_when_there_is_nothing_left_to_wait_for(state: str):
    status = {"jobStatus": "SUCCEEDED", "endTime": "2026-08-20T09:59:30Z"}

    def deleted(*containers: dict[str, Any], **more: Any) -> list[str]:
        scene = Scene(state, submissionMode="K8sJobMode", status=status).with_cluster().with_head()
        scene.with_submitter(**more).with_submitter_pod(*containers)
        return [each.uid for each in writes(scene.plan()) if isinstance(each, Delete)]

    assert deleted(ended(0, 30), PROXY) == ["uid-of-submitter"]
    assert deleted(ended(0, 5), PROXY) == [], "the proxy may end yet"
    finished: dict[str, Any] = {"condition": "Complete", "ended": NOW - timedelta(minutes=1)}
    assert deleted(ended(0, 60), PROXY, **finished) == [], "it is kept for its log"
