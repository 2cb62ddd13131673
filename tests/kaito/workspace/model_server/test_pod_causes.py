"""The conditions of Workspaces whose pods fail."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kaito.workspace.model_server import job_cause, server_cause
from controller.kaito.workspace.watches import PODS
from controller.kube.objects import Pod
from tests.kaito.support import tuning, workspace
from tests.kaito.workspace.given import Given, job, server
from tests.kaito.workspace.pods import container, ended, pod, unscheduled, waiting

CRASHED = container(terminated=ended(1, "Error", "no such model\n"), restarts=1)
RESTARTING = waiting("CrashLoopBackOff", "back-off 5m0s", restarts=2, last=ended(1))
OUT_OF_MEMORY = container(running={}, restarts=1, last=ended(137, "OOMKilled"))
NOT_PULLED = waiting("ImagePullBackOff", 'Back-off pulling image "x"')


def cause(**status: Any) -> tuple[str, str]:
    found = server_cause([pod(**status)])
    return (found.reason, found.message) if found is not None else ("", "")


def serving(*pods: Pod) -> Given:
    given = Given().with_nodes().with_revision().with_services().with_server(server(ready=0))
    given.reads.add(PODS, *pods)
    return given


@pytest.mark.parametrize(
    "reason",
    ["ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
     "ImageInspectError", "RegistryUnavailable"],
)  # fmt: skip
def test_an_image_that_cannot_be_pulled_is_the_cause(reason: str):
    assert cause(containerStatuses=[waiting(reason, "no such tag")]) == (
        "ImagePullError",
        "pod phi-0: the image of container phi cannot be pulled: no such tag",
    )


@pytest.mark.parametrize(
    "reason",
    ["CreateContainerConfigError", "PreCreateHookError", "CreateContainerError",
     "PreStartHookError", "RunContainerError", "PostStartHookError"],
)  # fmt: skip
def test_a_container_that_cannot_be_started_is_the_cause(reason: str):
    assert cause(containerStatuses=[waiting(reason)]) == (
        "ContainerStartError",
        f"pod phi-0: container phi cannot be started: {reason}",
    )


def test_a_container_that_ran_out_of_memory_is_the_cause_also_while_it_runs_again():
    reason, message = cause(containerStatuses=[OUT_OF_MEMORY])
    assert reason == "ContainerOOMKilled"
    assert message.startswith("pod phi-0: container phi ran out of memory; ")


def test_a_crash_is_said_with_its_exit_code_and_last_words():
    assert cause(containerStatuses=[CRASHED]) == (
        "ContainerCrashLoopBackOff",
        "pod phi-0: container phi ended with exit code 1 (Error: no such model)",
    )


def test_an_init_container_that_fails_is_named():
    puller = {**RESTARTING, "name": "puller-a"}
    message = cause(initContainerStatuses=[puller], containerStatuses=[waiting("PodInitializing")])
    assert message[1].startswith("pod phi-0: init container puller-a ended with exit code 1")


def test_an_init_container_that_has_failed_and_then_succeeded_is_no_cause():
    done = container(ready=True, restarts=1, terminated=ended(0), last=ended(1))
    starting = waiting("ContainerCreating")
    assert cause(initContainerStatuses=[done], containerStatuses=[starting]) == ("", "")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("The node was low on resource: ephemeral-storage.", "NodeDiskPressure"),
        ("The node had condition: [DiskPressure].", "NodeDiskPressure"),
        ("The node was low on resource: memory.", "NodeMemoryPressure"),
        ("", "PodEvicted"),
    ],
)
def test_an_evicted_pod_says_what_its_node_lacked(said: str, reason: str):
    killed = container(terminated=ended(137))
    found, message = cause(
        phase="Failed", reason="Evicted", message=said, containerStatuses=[killed]
    )
    assert found == reason
    assert "it has failed (Evicted" in message


def test_a_pod_that_its_node_refuses_says_why():
    assert cause(phase="Failed", reason="UnexpectedAdmissionError", message="no GPU") == (
        "PodFailed",
        "pod phi-0: it has failed (UnexpectedAdmissionError: no GPU)",
    )


@pytest.mark.parametrize("reason", ["Unschedulable", "SchedulingGated"])
def test_a_pod_without_a_node_is_the_cause(reason: str):
    found = cause(phase="Pending", conditions=[unscheduled(reason, "0/3 nodes are available")])
    assert found == (reason, "pod phi-0: it cannot be scheduled: 0/3 nodes are available")


def test_a_foreign_scheduler_chooses_no_reason_that_the_api_server_would_refuse():
    assert cause(conditions=[unscheduled("not a reason!", "full")])[0] == "Unschedulable"


def test_causes_are_ordered_by_what_a_user_can_do_about_them_then_by_pods():
    pods = [
        pod("phi-1", conditions=[unscheduled()]),
        pod("phi-10", containerStatuses=[OUT_OF_MEMORY]),
        pod("phi-9", containerStatuses=[OUT_OF_MEMORY]),
        pod("phi-2", containerStatuses=[NOT_PULLED]),
    ]
    for each in (pods, pods[::-1]):
        found = server_cause(each)
        assert found is not None
        assert found.message.startswith("pod phi-9: container phi ran out of memory")


# in conditions


def test_only_a_change_of_the_reason_is_urgent():
    given = serving(pod(containerStatuses=[waiting("ErrImagePull", "not found")]))
    first = given.plan().status
    assert first is not None
    assert first.urgent
    told = workspace(status=dict(first.wanted))
    given = Given(told).with_nodes().with_revision().with_services().with_server(server(ready=0))
    given.reads.add(PODS, pod(containerStatuses=[NOT_PULLED]))
    second = given.plan().status
    assert second is not None
    assert second.wanted != first.wanted
    assert not second.urgent


def tuned(found: Any, *pods: Pod) -> Given:
    given = Given(workspace(tuning=tuning())).with_nodes().with_revision().with_job(found)
    given.reads.add(PODS, *pods)
    return given


def test_a_tuning_that_has_failed_says_how_its_last_pod_ended():
    first = pod("phi-a", phase="Failed", containerStatuses=[OUT_OF_MEMORY])
    last = pod("phi-b", created="2026-01-01T00:10:00Z", phase="Failed", containerStatuses=[CRASHED])
    given = tuned(job(condition="Failed", failed=2), last, first)
    said = "tuning job failed; pod phi-b: container phi ended with exit code 1 "
    assert given.condition("JobStarted")[1] == "WorkspaceTuningJobStatusFailed"
    assert given.condition("JobStarted")[2].startswith(said)
    assert given.condition("WorkspaceSucceeded")[2].startswith(said)


def test_an_attempt_that_is_over_is_no_cause_while_the_next_one_runs():
    first = pod("phi-b", phase="Failed", containerStatuses=[CRASHED])
    second = pod("phi-a", created="2026-01-01T00:10:00Z", containerStatuses=[container(running={})])
    assert job_cause([first, second]) is None
    assert job_cause([]) is None
