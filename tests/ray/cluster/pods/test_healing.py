"""Every class of failure of a pod is repaired by one component."""

from __future__ import annotations

from typing import Any

import pytest

from controller.ray.cluster.pods import sort_by_role, unhealthy_reason
from controller.runtime.plan import Delete
from tests.ray.cluster.support import cluster, head, plan, pod, workers
from tests.ray.cluster.test_plan import settled, verbs

RUNS = {"running": {}}
KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
LOOPING = {"waiting": {"reason": "CrashLoopBackOff"}}

POLICIES = ["Always", "OnFailure", "Never"]
STATES = [RUNS, KILLED, DONE, LOOPING]


def in_state(phase: str, policy: str, state: dict[str, Any], **more: Any) -> Any:
    containers = [{"name": "sidecar", "state": RUNS}, {"name": "ray-worker", "state": state}]
    return pod("a", phase=phase, restart_policy=policy, containers=containers, **more)


@pytest.mark.parametrize(
    ("policy", "state", "expected"),
    [
        ("Always", RUNS, False),
        ("Always", KILLED, False),
        ("Always", DONE, False),
        ("Always", LOOPING, False),
        ("OnFailure", RUNS, False),
        ("OnFailure", KILLED, False),
        ("OnFailure", DONE, True),
        ("OnFailure", LOOPING, False),
        ("Never", RUNS, False),
        ("Never", KILLED, True),
        ("Never", DONE, True),
    ],
)
def test_what_the_kubelet_restarts_the_operator_leaves_alone(
    policy: str, state: dict[str, Any], expected: bool
):
    running = in_state("Running", policy, state)
    assert (unhealthy_reason(running) is not None) is expected


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("reason", ["", "Evicted", "NodeShutdown", "Preempting", "OOMKilled"])
def test_an_ended_pod_is_replaced_whatever_its_restart_policy(phase: str, policy: str, reason: str):
    ended = in_state(phase, policy, KILLED, reason=reason)
    why = unhealthy_reason(ended)
    assert why is not None
    assert reason in why
    evicted_head = head(phase=phase, restart_policy=policy, reason=reason)
    made = plan(settled(cluster(), evicted_head, *workers(2)))
    assert verbs(made, Delete) == [evicted_head.metadata.name]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("state", STATES)
def test_a_lost_node_is_for_the_control_plane(policy: str, state: dict[str, Any]):
    unknown = in_state("Unknown", policy, state, reason="NodeLost")
    going = in_state("Running", policy, state, terminating=True, reason="NodeLost")
    for lost in (unknown, going):
        assert unhealthy_reason(lost) is None
        assert plan(settled(cluster(), head(), *workers(1), lost)).stages == (), (
            "it may still run there, so it holds its place"
        )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("waiting", ["ImagePullBackOff", "CreateContainerConfigError"])
def test_a_pod_that_cannot_start_is_left_to_whoever_can_help(policy: str, waiting: str):
    stuck = in_state("Pending", policy, {"waiting": {"reason": waiting}}, ready=False)
    assert unhealthy_reason(stuck) is None


GROUPS = ("small", "Large")


def role(name: str, **labelled: str) -> str:
    found = {"ray.io/node-type": "worker"}
    found |= {f"ray.io/{key.replace('_', '-')}": value for key, value in labelled.items()}
    sorted_pods = sort_by_role("c", GROUPS, [pod(name, labels=found)])
    if sorted_pods.heads:
        return "head"
    (group,) = sorted_pods.workers
    return group


@pytest.mark.parametrize(
    ("name", "labelled", "expected"),
    [
        ("c-small-worker-abcde", {"group": "small"}, "small"),
        ("c-small-worker-abcde", {"group": "smal"}, "small"),
        ("c-small-worker-abcde", {"group": "Large"}, "small"),
        ("c-large-worker-abcde", {"group": "small"}, "Large"),
        ("c-small-worker-abcde", {"group": "headgroup"}, "small"),
        ("c-small-worker-abcde", {"group": "small", "node_type": "head"}, "small"),
        ("c-head-abcde", {"group": "small"}, "head"),
        ("c-gone-worker-abcde", {"group": "gone"}, "gone"),
        ("c-gone-worker-abcde", {"group": "small"}, "small"),
        ("older-name-of-a-worker", {"group": "gone"}, "gone"),
        ("c-head", {"group": "headgroup", "node_type": "head"}, "head"),
        ("c-small-worker-abcde", {"group": ""}, "small"),
        ("c-small-worker-abcde", {"group": "", "node_type": ""}, "small"),
        ("c-head-abcde", {"group": "", "node_type": ""}, "head"),
        ("older-name-of-a-worker", {"group": ""}, ""),
    ],
)
def test_the_name_decides_unless_it_tells_nothing_certain(
    name: str, labelled: dict[str, str], expected: str
):
    assert role(name, **labelled) == expected


def test_a_pod_without_a_label_whose_name_fits_two_groups_is_of_unknown_role():
    found = {"ray.io/node-type": "worker", "ray.io/group": ""}
    sorted_pods = sort_by_role("c", ("a", "A"), [pod("c-a-worker-abcde", labels=found)])
    assert sorted_pods.unknown == ("pod c-a-worker-abcde lost the label ray.io/group",)
    assert [each.metadata.name for each in sorted_pods.workers[""]] == ["c-a-worker-abcde"]
