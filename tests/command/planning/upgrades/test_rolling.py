"""The recorded steps of a rolling update, their times, and their words."""

from __future__ import annotations

from typing import Any

import pytest

from controller.command.output import duration
from controller.command.planning.plan import rolling_lines
from controller.command.planning.upgrades import Rolling, RollingRecorder, rolling_update
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.api.upgrade_strategy import RollingUpdate
from controller.runtime.plan import Create, Delete, MergePatch, Target

PROVISO = "if they take as long as the present ones did"
DRAINS = "drains come on top, at most 5 min in each of the steps that drain"
CLUSTER: dict[str, Any] = {"metadata": {"name": "a", "uid": "u"}, "spec": {}}


def pod(name: str, group: str, *, ready: str = "", restarts: int = 0) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}] if ready else []
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": "2026-08-20T10:00:00Z",
            "labels": {labels.GROUP: group},
            "ownerReferences": [{"uid": "u", "controller": True}],
        },
        "spec": {"containers": [{"name": "ray", "resources": {"limits": {"cpu": "2"}}}]},
        "status": {"conditions": conditions, "containerStatuses": [{"restartCount": restarts}]},
    }


def replaced(recorder: RollingRecorder, old: dict[str, Any], *, drained: bool = True) -> None:
    """One pod is deleted and another one created in its place, which becomes ready."""
    name, group = old["metadata"]["name"], old["metadata"]["labels"][labels.GROUP]
    target = Target(PODS, "team", name)
    if drained:
        patch = {"metadata": {"annotations": {labels.DRAINING_SINCE: "2026-08-20T11:00:00Z"}}}
        recorder.record(0, MergePatch(target, "uid", patch), [])
    recorder.record(0, Delete(target, "uid"), [old])
    new = pod(f"{name}-new", group)
    recorder.record(0, Create(Target(PODS, "team", f"{name}-new"), new), [])
    recorder.settled()


def lines(rolling: Rolling | None) -> list[str]:
    return [text.strip() for _, text in rolling_lines(rolling)]


def test_steps_are_measured_by_the_middle_of_their_groups_pods():
    present = [
        pod("a-1", "a", ready="2026-08-20T10:00:20Z"),
        pod("a-2", "a", ready="2026-08-20T10:00:40Z"),
        pod("a-3", "a", ready="2026-08-20T12:00:00Z", restarts=1),  # was ready before
        pod("a-4", "a"),
        pod("head", "headgroup", ready="2026-08-20T10:01:00Z"),
    ]
    recorder = RollingRecorder(CLUSTER, RollingUpdate(), present)
    replaced(recorder, present[0])
    replaced(recorder, present[-1], drained=False)
    found = recorder.rolling()
    assert found is not None
    assert [step.seconds for step in found.steps] == [30, 60]
    assert found.seconds == 90
    assert lines(found) == [
        "its pods are replaced in these steps",
        "1. group a: drain and delete a-1, create 1 Pod",
        "2. head: delete head, create 1 Pod",
        "at the peak 5 Pods, 10 CPUs; 5 Pods, 10 CPUs before, 5 Pods, 10 CPUs after",
        f"new pods need about 90 s in all to be ready, {PROVISO}; {DRAINS}",
    ]


def test_without_a_ready_pod_the_time_cannot_be_known():
    present = [pod("a-1", "a"), pod("b-1", "b", ready="2026-08-20T10:00:20Z")]
    recorder = RollingRecorder(CLUSTER, RollingUpdate(drain_timeout_seconds=0), present)
    replaced(recorder, present[0], drained=False)
    replaced(recorder, present[1], drained=False)
    found = recorder.rolling()
    assert found is not None
    assert (found.seconds, found.unmeasured) == (None, ("a",))
    assert lines(found)[-1] == "how long that takes cannot be known: no ready pod of a to measure"


def test_steps_that_differ_in_names_only_are_one_line():
    present = [pod(f"a-{n}", "a", ready="2026-08-20T10:00:20Z") for n in range(40)]
    recorder = RollingRecorder(CLUSTER, RollingUpdate(), present)
    for each in present:
        replaced(recorder, each)
    assert lines(recorder.rolling())[1] == (
        "1. to 40., each: group a: drain and delete 1 Pod, create 1 Pod"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (3600, "1 h"),
        (4800, "1 h 20 min"),
        (273600, "3 d 4 h"),
    ],
)
def test_times_are_as_exact_as_they_can_be(seconds: float, text: str):
    assert duration(seconds) == text


@pytest.mark.parametrize("strategy", [{}, {"type": "Recreate"}, {"type": 1}])
def test_only_rolling_updates_have_settings(strategy: dict[str, Any]):
    cluster = {**CLUSTER, "spec": {"upgradeStrategy": strategy}}
    assert rolling_update(cluster) is None
    odd = {**CLUSTER, "metadata": {"annotations": {labels.UPGRADE_STRATEGY: "Rolling"}}}
    assert rolling_update(odd) is None
    asked = {**CLUSTER, "metadata": {"annotations": {labels.UPGRADE_STRATEGY: "RollingUpdate"}}}
    assert rolling_update(asked) == RollingUpdate()
