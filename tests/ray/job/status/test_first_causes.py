"""The last word about a job that failed names the first cause, in one line where others read it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import find_condition, rfc3339
from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.dashboard.responses import JobStatus
from controller.runtime.kind import LogText
from controller.runtime.plan import LogTail, MergePatch
from tests.ray.cluster.support import NOW
from tests.ray.job.scenes import Scene, cluster, head_pod, running, submitter_pod
from tests.ray.job.test_job_plan import ready as ready_of
from tests.ray.job.test_job_plan import reported, status_of

K8S_JOB: dict[str, Any] = {"submissionMode": "K8sJobMode"}
LOG = "batch.kubernetes.io/controller-uid=uid-of-submitter"
PULL = {
    "name": "mine",
    "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image none:0"}},
}
TRACEBACK = (
    "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 "
    "chars):\nTraceback (most recent call last):\n  File x\n\x1b[31mValueError\x1b[0m: no model"
)


def starting(message: str) -> Scene:
    """An attempt whose cluster says why it is not ready."""
    ready = {"type": "Ready", "status": "False", "reason": "ImagePullBackOff", "message": message}
    scene = Scene("Initializing", activeDeadlineSeconds=60)
    made = msgspec.structs.replace(cluster(""), status={"conditions": [ready]})
    scene.reads.add(RAYCLUSTERS, made)
    return scene


def test_the_deadline_names_the_image_that_the_submitter_could_not_pull():
    scene = running(activeDeadlineSeconds=60, **K8S_JOB).with_submitter()
    scene.reads.logs[LOG] = LogText(unavailable="the container has not started")
    status = status_of(scene.with_submitter_pod(PULL).knows_nothing().plan())
    assert status["reason"] == "DeadlineExceeded"
    assert "longer than activeDeadlineSeconds (60 s): submitter: pod example-x" in status["message"]
    assert "no such image none:0" in status["message"]


def test_the_deadline_names_what_kept_the_cluster_from_starting():
    status = status_of(starting("head: pod x cannot pull image y").plan())
    assert status["message"].endswith(
        "(60 s): cluster example-abcde: head: pod x cannot pull image y"
    )


def test_the_deadline_of_a_job_that_simply_runs_has_no_other_cause():
    status = status_of(running(activeDeadlineSeconds=60).says(JobStatus.RUNNING).plan())
    assert status["message"] == "the attempt took longer than activeDeadlineSeconds (60 s)"


def test_a_submitter_that_failed_is_quoted():
    scene = running(**K8S_JOB).with_submitter("Failed", ended=NOW - timedelta(seconds=60))
    scene.reads.logs[LOG] = LogText(
        "Usage: ray job submit [OPTIONS]\n\n\x1b[31mError: No such option: --x\x1b[0m\n"
    )
    commit = scene.knows_nothing().plan().commit
    assert isinstance(commit, MergePatch)
    assert commit.on_success is not None
    for told in (commit.patch["status"]["message"], commit.on_success.note):
        assert told.endswith("; its log ends with: Error: No such option: --x")


NO_SHELL = "failed to create task: \x1b[31mexec: /bin/bash: no such file or directory\x1b[0m\n"


STARTED = {"exitCode": 128, "reason": "StartError", "message": NO_SHELL}


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        (
            submitter_pod("example-x", {"name": "mine", "state": {"terminated": STARTED}}),
            (
                "the submitter failed (exit code 128 (StartError); BackoffLimitExceeded: it failed)"
                ", saying: failed to create task: exec: /bin/bash: no such file or directory, and "
            ),
        ),
        (
            submitter_pod("example-x", phase="Failed", reason="Evicted", message="No memory."),
            "the submitter failed (Evicted: No memory; BackoffLimitExceeded: it failed), and Ray",
        ),
    ],
)
def test_a_submitter_that_failed_without_a_log_has_the_words_of_the_kubelet(pod: Pod, told: str):
    scene = running(**K8S_JOB).with_submitter("Failed", ended=NOW - timedelta(seconds=60))
    scene.reads.add(PODS, pod)
    scene.reads.logs[LOG] = LogText(unavailable="the container never ran")
    assert status_of(scene.knows_nothing().plan())["message"].startswith(told)


def test_a_head_that_crashes_again_and_again_is_not_said_to_be_gone():
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    container = {"name": "ray-head", "restartCount": 1, "state": waiting, "lastState": killed}
    message = "head: pod example-head-aaaaaaaa ran out of memory"
    ready = {"type": "Ready", "status": "False", "reason": "OutOfMemory", "message": message}
    since = rfc3339(NOW - timedelta(seconds=100))
    scene = Scene(status={"jobStatusCheckFailureStartTime": since}).started(90)
    scene.reads.add(PODS, head_pod(containers=[container], ready=False))
    seen = cluster("")
    scene.reads.add(RAYCLUSTERS, msgspec.structs.replace(seen, status={"conditions": [ready]}))
    status = status_of(scene.plan())
    assert status["message"].startswith("HeadLost: ")
    scene = Scene().started(90)
    scene.reads.add(PODS, head_pod(containers=[container], ready=False))
    scene.reads.add(RAYCLUSTERS, seen)
    undecided = ready_of(reported(scene.fails(10).plan()))
    assert undecided["reason"] == "HeadLost"
    for message in (status["message"], undecided["message"]):
        assert "is gone" not in message
        assert "pod example-head-aaaaaaaa ran out of memory: " in message
        assert "exit code 137 (OOMKilled)" in message


def test_a_head_that_is_gone_has_the_cause_that_its_cluster_names():
    scene = lost_head()
    assert status_of(scene.plan())["message"].endswith(
        "has ended; cluster example-abcde: head: quota exceeded"
    )


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("Failed", {"terminated": {"exitCode": 3, "reason": "Error"}}),
        ("Running", {"terminated": {"exitCode": 3, "reason": "Error"}}),
    ],
)
def test_a_head_that_has_ended_is_named_with_its_exit_code(phase: str, state: dict[str, Any]):
    scene = lost_head()
    head = head_pod(phase=phase, ready=False, containers=[{"name": "ray-head", "state": state}])
    scene.reads.add(PODS, head)
    message = status_of(scene.plan())["message"]
    assert message.startswith("HeadLost: the head that the job ran on is lost: pod example-head-")
    assert "exit code 3 (Error)" in message
    assert "it is replaced" not in message, "the cluster goes with its attempt"


def test_a_head_that_was_restarted_in_place_is_named_with_its_end_and_its_last_words():
    end = {"exitCode": 137, "reason": "OOMKilled", "message": "loading\nMemoryError: no more\n"}
    status = {"name": "ray-head", "restartCount": 1, "state": {"running": {}}}
    scene = lost_head()
    scene.reads.add(PODS, head_pod(containers=[{**status, "lastState": {"terminated": end}}]))
    message = status_of(scene.knows_nothing().plan())["message"]
    assert message.endswith(
        "Ray in pod example-head-aaaaaaaa restarted; before, it ended with exit code 137 "
        "(OOMKilled), saying: MemoryError: no more"
    )


HEAD_ENDS = {
    "has ended": ({"phase": "Failed", "ready": False}, "state", False),
    "crashes": ({"ready": False}, "lastState", True),
    "restarted": ({}, "lastState", True),
}


@pytest.mark.parametrize("how", HEAD_ENDS)
def test_the_error_of_a_lost_head_is_read_from_its_log(how: str):
    more, where, previous = HEAD_ENDS[how]
    end = {"terminated": {"exitCode": 3, "reason": "Error"}}
    status = {"name": "ray-head", "restartCount": 1, "state": {"running": {}}, where: end}
    scene = lost_head()
    scene.reads.add(PODS, head_pod(containers=[status], **more)).unread_logs = True
    if how == "restarted":
        scene.knows_nothing()
    name = "example-head-aaaaaaaa"
    log = LogTail("default", "", "ray-head", pod=name, previous=previous, restarts=1)
    assert scene.plan().lookups == (log,)
    scene.reads.logs[name] = LogText("starting\nRuntimeError: no GPU found\n")
    message = status_of(scene.plan())["message"]
    assert message.startswith("HeadLost: ")
    assert "exit code 3 (Error), saying: RuntimeError: no GPU found" in message


def lost_head() -> Scene:
    """A job whose head is lost for long, and whose cluster names another cause."""
    ready = {"type": "Ready", "status": "False", "reason": "x", "message": "head: quota exceeded"}
    since = rfc3339(NOW - timedelta(seconds=100))
    scene = Scene(status={"jobStatusCheckFailureStartTime": since}).started(90)
    made = msgspec.structs.replace(cluster(""), status={"conditions": [ready]})
    scene.reads.add(RAYCLUSTERS, made)
    return scene


@pytest.mark.parametrize("limit", [0, 1])
def test_a_traceback_stands_in_the_message_and_one_line_of_it_elsewhere(limit: int):
    commit = running(backoffLimit=limit).says(JobStatus.FAILED, message=TRACEBACK).plan().commit
    assert isinstance(commit, MergePatch)
    status, event = commit.patch["status"], commit.on_success
    assert "Traceback" in status["message"]
    assert "\x1b" not in str(status)
    line = "Job entrypoint command failed with exit code 1: ValueError: no model"
    ready = find_condition(status["conditions"], "Ready")
    assert ready is not None
    assert ready["message"] == line
    assert event is not None
    assert line in event.note
    assert "Traceback" not in event.note
    attempt = status["attempts"][-1]
    assert attempt["message"] == line
    assert ("Traceback" in attempt.get("log", "")) is bool(limit), (
        "the next attempt clears the message"
    )


def test_a_container_that_crashes_is_quoted_with_its_error_alone():
    said = "starting\n  at line 3\n\x1b[31mFATAL: token=abc123 is no token\x1b[0m\nbye\n"
    end = {"exitCode": 1, "reason": "Error", "message": said}
    container = {"name": "mine", "restartCount": 2, "state": {"terminated": end}}
    scene = running(**K8S_JOB).with_submitter().with_submitter_pod(container).knows_nothing()
    ready = find_condition(reported(scene.plan())["conditions"], "Ready")
    assert ready is not None
    assert ready["message"].endswith(
        "container mine last ended with exit code 1 (Error), saying: FATAL: token=[redacted] is no "
        "token; see `kubectl logs example-x -c mine`"
    )


def ended(code: int, reason: str) -> dict[str, Any]:
    return {"name": "mine", "state": {"terminated": {"exitCode": code, "reason": reason}}}


@pytest.mark.parametrize(
    ("container", "remedy"),
    [
        (
            PULL,
            "of mine in spec.submitterPodTemplate, which takes it from the head by default, or ",
        ),
        (ended(137, "OOMKilled"), "resources.limits.memory of mine in spec.submitterPodTemplate"),
        (ended(2, "Error"), "see `kubectl logs example-x -c mine`"),
    ],
)
def test_what_a_submitter_needs_is_said_of_the_field_that_has_it(
    container: dict[str, Any], remedy: str
):
    scene = running(**K8S_JOB).with_submitter().with_submitter_pod(container).knows_nothing()
    ready = find_condition(reported(scene.plan())["conditions"], "Ready")
    assert ready is not None
    message = ready["message"]
    assert message.endswith(remedy) or f"{remedy}set imagePullSecrets" in message
