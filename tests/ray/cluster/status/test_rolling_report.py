"""What the status and events say of a rolling update, and what is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.kube.objects import Pod
from controller.ray.api import labels
from controller.ray.cluster.conditions import (
    ClusterConditions,
    set_upgrading,
    upgrade_events,
    upgrade_status,
)
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.cluster.rollout import RayView, Verdict
from tests.ray.cluster.support import NOW
from tests.ray.cluster.upgrade.rolling.scenes import (
    answering,
    draining,
    new,
    observed,
    old,
    rolled_out,
    rolling,
    the_head,
    upgrading,
    with_begun,
    with_spec,
    without_rolling,
)


def said(seen: ClusterObservation) -> dict[str, Any]:
    """The condition `Upgrading`, empty if there is none."""
    conditions = ClusterConditions(seen.stored.conditions, 1, NOW)
    set_upgrading(conditions, seen)
    found = [each for each in conditions.as_list() if each["type"] == "Upgrading"]
    return found[0] if found else {}


def events(seen: ClusterObservation) -> list[str]:
    return [each.reason for each in upgrade_events(seen)]


def scene(
    *workers: Pod,
    raw: dict[str, Any] | None = None,
    before: dict[str, Any] | None = None,
    **changes: Any,
) -> ClusterObservation:
    raw = raw or rolling(2)
    conditions = () if before is None else (before,)
    head = changes.pop("head", None) or the_head(raw)
    return rolled_out(observed(raw, head, *workers, conditions=conditions, **changes))


def test_with_another_strategy_the_condition_goes_and_what_still_drains_is_not_told():
    seen = scene(
        old("a", annotations=draining()), old("b"), raw=without_rolling(2), before=upgrading()
    )
    assert seen.rollout is not None
    assert (said(seen), events(seen), upgrade_status(seen)) == ({}, [], None)


def test_the_manual_says_what_each_reason_means():
    manual = (Path(__file__).parents[4] / "docs" / "upgrades.md").read_text()
    assert [each for each in Verdict if f"| `{each.value}` | " not in manual] == []


def test_a_head_that_stays_is_still_outdated():
    raw = rolling(1)
    found = said(scene(new(raw, "a"), raw=raw, head=the_head(raw, outdated=True)))
    assert (found["status"], found["reason"]) == ("True", "HeadNeedsFaultTolerance")
    assert found["message"].startswith("head example-head-aaaaaaaa is outdated; it is not replaced")


def test_a_resumed_update_begins_anew_and_another_one_does_not():
    resumed = said(scene(old("a"), before=upgrading("Paused")))
    assert resumed["lastTransitionTime"] == "2026-08-20T10:00:00Z"
    assert (
        said(scene(old("a"), before=upgrading()))["lastTransitionTime"]
        != (resumed["lastTransitionTime"])
    )
    raw = rolling(2, paused=True)
    paused = said(scene(old("a"), raw=raw, before=upgrading("Paused")))
    assert paused["lastTransitionTime"] == upgrading("Paused")["lastTransitionTime"]


def test_groups_in_which_nothing_is_left_are_not_counted_in_the_message():
    raw = rolling(1, 1)
    message = said(scene(new(raw, "a"), old("b", group="workers-1"), raw=raw))["message"]
    assert message.startswith("group workers-1: 0 of 1 pods updated, 1 ready, 1 outdated")
    gone = scene(new(raw, "a"), old("c", terminating=True), old("b", group="workers-1"), raw=raw)
    assert "group workers: 1 of 1 pods updated, 1 ready, 1 outdated" in said(gone)["message"]


def group_status(*workers: Pod, raw: dict[str, Any] | None = None, **changes: Any) -> Any:
    seen = scene(*workers, raw=raw, **changes)
    status = upgrade_status(seen)
    assert status is not None
    (group,) = status["groups"]
    return group


def test_the_status_counts_pods_of_a_group():
    raw = rolling(3)
    leaving = new(raw, "b", annotations=draining(10))
    assert group_status(new(raw, "a"), leaving, old("c"), raw=raw) == {
        "name": "workers",
        "desired": 3,
        "updated": 1,
        "ready": 2,
        "outdated": 2,
        "drainingSince": "2026-08-20T09:59:50Z",
    }
    gone = new(raw, "b", annotations=draining(10), terminating=True)
    assert "drainingSince" not in group_status(gone, old("c"), raw=raw)


def test_the_message_counts_the_pods_of_the_group_whose_turn_it_is():
    raw = rolling(1, 1, maxSurge=0, maxUnavailable=1)
    pods = new(raw, "a", ready=False), old("b", group="workers-1")
    seen = rolled_out(with_begun(scene(*pods, raw=raw), "workers"))
    counts = "group workers: 1 of 1 pods updated, 0 ready, 0 outdated; group workers-1: "
    assert said(seen)["message"].startswith(counts)


def test_while_ray_is_not_asked_a_pod_is_ready_if_kubernetes_says_so():
    assert group_status(old("a"), old("b", ready=False), ray=RayView())["ready"] == 1
    assert group_status(old("a"), old("b"), ray=answering())["ready"] == 0
    leaving = old("a", annotations=draining())
    assert group_status(leaving, old("b"), ray=RayView())["ready"] == 1


def test_the_status_has_nothing_of_a_complete_update_or_where_the_definition_would_drop_it():
    raw = rolling(1)
    complete = scene(new(raw, "a"), raw=raw)
    assert upgrade_status(complete) is None
    annotated = with_spec(rolling(1), upgradeStrategy={})
    annotated["metadata"]["annotations"] = {labels.UPGRADE_STRATEGY: "RollingUpdate"}
    seen = scene(old("a"), raw=annotated)
    assert said(seen)["reason"] == "Rolling"
    assert upgrade_status(seen) is None


@pytest.mark.parametrize(
    ("before", "paused", "told"),
    [
        (None, False, ["UpgradeStarted"]),
        (upgrading("Complete", "False"), False, ["UpgradeStarted"]),
        (upgrading("Draining"), False, []),
        (upgrading(), False, []),
        (upgrading("Paused"), False, ["UpgradeResumed"]),
        (upgrading("Paused", "False"), False, ["UpgradeStarted"]),
        (None, True, ["UpgradeStarted", "UpgradePaused"]),
        (upgrading(), True, ["UpgradePaused"]),
        (upgrading("Paused"), True, []),
    ],
)
def test_events_tell_what_changes(before: dict[str, Any] | None, told: list[str], *, paused: bool):
    assert events(scene(old("a"), raw=rolling(1, paused=paused), before=before)) == told


def test_the_end_is_reported_only_of_what_was_begun():
    raw = rolling(1)
    assert events(scene(new(raw, "a"), raw=raw, before=upgrading())) == ["UpgradeComplete"]
    assert events(scene(new(raw, "a"), raw=raw)) == []
    never = upgrading("HeadNeedsFaultTolerance", "False")
    assert events(scene(new(raw, "a"), raw=raw, before=never)) == []


def test_what_a_person_has_to_do_is_reported_once():
    raw = rolling(1)
    head = the_head(raw, outdated=True)
    assert events(scene(new(raw, "a"), raw=raw, head=head)) == ["UpgradeStuck"]
    told_before = upgrading("HeadNeedsFaultTolerance")
    assert events(scene(new(raw, "a"), raw=raw, head=head, before=told_before)) == []
