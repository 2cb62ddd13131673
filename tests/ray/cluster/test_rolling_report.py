"""What is said of a rolling update: what it waits for, since when, and what is counted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from controller.kube.objects import Condition
from controller.ray.api import labels
from controller.ray.cluster.doubts.confirmation import confirmation_of
from controller.ray.cluster.observed.pod_history import Losses, PodHistory
from controller.ray.cluster.observed.ray_view import RayView
from controller.ray.cluster.observed.rollout import Verdict
from controller.ray.cluster.status.conditions import ClusterConditions
from controller.ray.cluster.status.rolling_report import (
    set_upgrading,
    upgrade_events,
    upgrade_status,
)
from controller.ray.cluster.upgrade.rolling.explanation import is_explained
from controller.ray.cluster.upgrade.rolling.stamps import (
    hides_an_edit,
    stamp_writes,
    unstamped_pods,
)
from controller.ray.dashboard import CommandExpired, CommandRefused
from controller.ray.head.identity import HEAD_SCOPE, worker_scope
from controller.ray.pods.template_hash import UNKNOWN
from controller.runtime.plan import MergePatch
from controller.runtime.reconcile.definitions.installed_definition import InstalledDefinition
from tests.ray.cluster.support import NOW, cluster, pod, with_meta, with_status
from tests.ray.cluster.upgrade.rolling.scenes import (
    answering,
    decided,
    desired_of,
    draining,
    new,
    observed,
    observed_object,
    old,
    rolled_out,
    rolling,
    the_head,
    upgrading,
    with_begun,
    with_spec,
)

if TYPE_CHECKING:
    from controller.kube.objects import Pod
    from controller.ray.cluster.observation import ClusterObservation

STARTING: dict[str, Any] = {"phase": "Pending", "ready": False}


# -- what it waits for -------------------------------------------------------------------------


def cause(*workers: Pod, raw: dict[str, Any] | None = None, **changes: Any) -> str:
    raw = raw or rolling(2)
    heads = changes.pop("heads", (the_head(raw),))
    return decided(observed(raw, *heads, *workers, conditions=(upgrading(),), **changes)).cause


def test_a_drain_is_named_with_what_becomes_of_actors():
    assert cause(old("a", annotations=draining())).startswith("a is being drained; actors cannot")


def test_the_first_new_pod_that_is_not_of_use_is_named():
    raw = rolling(3)
    starting = new(raw, "b", **STARTING)
    assert cause(new(raw, "a"), starting, old("c"), raw=raw) == "waiting for b to be ready"
    unknown = cause(new(raw, "a"), old("c"), raw=raw, ray=answering())
    assert unknown == "waiting for a to be listed by Ray as alive"


def test_a_pod_that_goes_is_named():
    assert cause(old("a", terminating=True), raw=rolling(1)) == "waiting for a to be gone"


def test_the_head_is_named_when_all_else_is_done():
    raw = with_spec(rolling(1), gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
    worker = new(raw, "a")
    waits = "waiting for the head to be ready"
    assert cause(worker, raw=raw, heads=(the_head(raw, outdated=True),)) == (
        "the head is replaced last"
    )
    assert cause(worker, raw=raw, heads=(the_head(raw, outdated=True, ready=False),)) == waits
    assert cause(worker, raw=raw, heads=()) == waits
    short = rolling(2)
    assert cause(new(short, "a"), raw=short) == ""


def test_why_ray_could_not_drain_is_said_once():
    drains = {
        "c1": CommandRefused("no such command"),
        "c2": CommandRefused("no such command"),
        "c3": CommandExpired("no answer"),
    }
    said = cause(old("a", annotations=draining()), ray=answering(drains=drains))
    assert said.endswith("; workers go without having been drained: no such command")
    assert said.count("no such command") == 1


def lost(rounds: int, scope: str) -> PodHistory:
    losses = Losses(rounds, NOW, frozenset(), frozenset(), "", pod("x", phase="Failed"))
    return PodHistory(losses={scope: losses})


def test_pods_that_are_lost_again_and_again_are_named_before_what_else_is_waited_for():
    scope = worker_scope("workers")
    assert "lost 2 times in a row" in cause(old("a"), old("b"), history=lost(2, scope))
    assert "lost" not in cause(old("a"), old("b"), history=lost(1, scope))
    assert "lost" not in cause(old("a"), old("b"), history=lost(2, HEAD_SCOPE))
    raw = rolling(1)
    done = cause(new(raw, "a", ready=False), raw=raw, history=lost(2, scope))
    assert "lost" not in done


# -- since when nothing has moved --------------------------------------------------------------


def seconds_left(
    *workers: Pod, condition: dict[str, Any] | None, raw: dict[str, Any] | None = None
) -> float | None:
    raw = raw or rolling(2, progressDeadlineSeconds=600, drainTimeoutSeconds=300)
    conditions = () if condition is None else (condition,)
    seen = observed(raw, the_head(raw), *workers, conditions=conditions)
    return decided(seen).seconds_left


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        (None, 600),
        (upgrading(seconds=100), 500),
        (upgrading(status="False", seconds=100), 600),
        (upgrading("Paused", seconds=100), 600),
        (upgrading() | {"lastTransitionTime": "yesterday"}, 600),
        (upgrading(seconds=-50), 600),
    ],
    ids=["new", "under way", "complete before", "resumed", "odd", "from the future"],
)
def test_the_deadline_counts_from_the_beginning(condition: dict[str, Any] | None, left: float):
    assert seconds_left(old("a"), condition=condition) == left


def ready_since(worker: Pod, time: str) -> Pod:
    ready = Condition(type="Ready", status="True", last_transition_time=time)
    status = msgspec.structs.replace(worker.status, conditions=(ready,))
    return msgspec.structs.replace(worker, status=status)


def test_a_new_pod_is_progress_when_it_is_created_and_when_it_is_ready():
    raw = rolling(2, progressDeadlineSeconds=600)
    began = upgrading(seconds=500)
    starting = new(raw, "b", created="2026-08-20T09:59:00Z", **STARTING)
    assert seconds_left(old("a"), starting, condition=began, raw=raw) == 540
    ready = ready_since(starting, "2026-08-20T09:59:30Z")
    assert seconds_left(old("a"), ready, condition=began, raw=raw) == 570
    outdated = ready_since(old("b"), "2026-08-20T09:59:30Z")
    assert seconds_left(old("a"), outdated, condition=began, raw=raw) == 100
    odd = new(raw, "b", created="yesterday", **STARTING)
    assert seconds_left(old("a"), odd, condition=began, raw=raw) == 100


def test_a_pod_that_begins_to_drain_is_progress():
    raw = rolling(2, progressDeadlineSeconds=600, drainTimeoutSeconds=1000)
    leaving = old("b", annotations=draining(30))
    assert seconds_left(old("a"), leaving, condition=upgrading(seconds=500), raw=raw) == 570


def test_the_end_of_a_drain_is_looked_at_and_one_that_has_ended_is_not():
    raw = rolling(3, drainTimeoutSeconds=100)
    leaving = old("a", annotations=draining(40)), old("b", annotations=draining(10))
    assert seconds_left(*leaving, condition=upgrading(), raw=raw) == 60
    ended = old("a", annotations=draining(100)), leaving[1]
    assert seconds_left(*ended, condition=upgrading(), raw=raw) == 90
    gone = old("a", annotations=draining(40), terminating=True), leaving[1]
    assert seconds_left(*gone, condition=upgrading(), raw=raw) == 90


# -- what is said ------------------------------------------------------------------------------


def said(seen: ClusterObservation) -> dict[str, Any]:
    """The condition `Upgrading`, empty if there is none."""
    conditions = ClusterConditions(seen.conditions, 1, NOW)
    set_upgrading(conditions, seen, desired_of(seen))
    found = [each for each in conditions.as_list() if each["type"] == "Upgrading"]
    return found[0] if found else {}


def events(seen: ClusterObservation) -> list[str]:
    return [each.reason for each in upgrade_events(seen, desired_of(seen))]


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


def without_rolling(*groups: int) -> dict[str, Any]:
    return with_spec(rolling(*groups), upgradeStrategy={"type": "None"})


def test_with_another_strategy_the_condition_goes_and_what_still_drains_is_not_told():
    seen = scene(
        old("a", annotations=draining()), old("b"), raw=without_rolling(2), before=upgrading()
    )
    assert seen.rollout is not None
    assert (said(seen), events(seen), upgrade_status(seen, desired_of(seen))) == ({}, [], None)


def test_while_a_cluster_is_suspended_the_condition_stays():
    seen = scene(raw=with_spec(rolling(2), suspend=True), before=upgrading())
    assert said(seen) == upgrading()
    assert events(seen) == []
    assert upgrade_status(seen, desired_of(seen)) is None


def test_an_update_is_said_to_be_under_way_until_it_is_complete():
    assert said(scene(old("a")))["status"] == "True"
    raw = rolling(1)
    done = said(scene(new(raw, "a"), raw=raw, before=upgrading()))
    assert (done["status"], done["reason"]) == ("False", "Complete")
    assert done["message"] == "all pods are made from the present templates"


def test_the_manual_says_what_each_reason_means():
    manual = (Path(__file__).parents[3] / "docs" / "upgrades.md").read_text()
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
    status = upgrade_status(seen, desired_of(seen))
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
    assert upgrade_status(complete, desired_of(complete)) is None
    annotated = with_spec(rolling(1), upgradeStrategy={})
    annotated["metadata"]["annotations"] = {labels.UPGRADE_STRATEGY: "RollingUpdate"}
    seen = scene(old("a"), raw=annotated)
    assert said(seen)["reason"] == "Rolling"
    assert upgrade_status(seen, desired_of(seen)) is None


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


def test_the_end_is_told_only_of_what_was_begun():
    raw = rolling(1)
    assert events(scene(new(raw, "a"), raw=raw, before=upgrading())) == ["UpgradeComplete"]
    assert events(scene(new(raw, "a"), raw=raw)) == []
    never = upgrading("HeadNeedsFaultTolerance", "False")
    assert events(scene(new(raw, "a"), raw=raw, before=never)) == []


def test_what_a_person_has_to_do_is_told_once():
    raw = rolling(1)
    head = the_head(raw, outdated=True)
    assert events(scene(new(raw, "a"), raw=raw, head=head)) == ["UpgradeStuck"]
    told_before = upgrading("HeadNeedsFaultTolerance")
    assert events(scene(new(raw, "a"), raw=raw, head=head, before=told_before)) == []


# -- what explains it --------------------------------------------------------------------------


def recorded(raw: dict[str, Any], *conditions: dict[str, Any], **numbers: Any) -> Any:
    """The cluster with pods that were counted at a generation, and the status at another one."""
    numbers = {"counted": 1, "observed": 1} | numbers
    counted = {"type": "HeadPodReady", "observedGeneration": numbers["counted"]}
    status = {"observedGeneration": numbers["observed"], "conditions": [counted, *conditions]}
    return with_status(cluster(raw), status)


def explained(obj: Any, *, only_head: bool = False, **changes: Any) -> bool:
    return is_explained(observed_object(obj, **changes), only_head=only_head)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({}, False),
        ({"counted": 0}, True),
        ({"observed": 0}, True),
        ({"counted": 0, "observed": 0}, True),
    ],
)
def test_an_edit_explains_what_was_not_counted_yet(numbers: dict[str, int], *, expected: bool):
    assert explained(recorded(rolling(1), **numbers)) is expected


def test_nothing_is_explained_while_the_definition_lacks_settings():
    obj = recorded(rolling(1), counted=0)
    lacks = InstalledDefinition(missing=("spec.upgradeStrategy.rollingUpdate.paused",))
    assert not explained(obj, definition=lacks)
    assert explained(obj, definition=InstalledDefinition(missing=("spec.other",)))


def test_a_person_explains_it():
    obj = recorded(rolling(1))
    annotations = {labels.CONFIRM_DELETION: confirmation_of(obj)}
    assert explained(with_meta(obj, annotations=annotations))


@pytest.mark.parametrize(
    ("condition", "only_head", "expected"),
    [
        (upgrading(), False, True),
        (upgrading(status="False"), False, False),
        (upgrading("HeadNeedsFaultTolerance"), False, False),
        (upgrading("HeadNeedsFaultTolerance"), True, True),
    ],
)
def test_an_update_that_is_under_way_goes_on(
    condition: dict[str, Any], *, only_head: bool, expected: bool
):
    assert explained(recorded(rolling(1), condition), only_head=only_head) is expected


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("False", "UpgradeStrategyNone", True),
        ("True", "UpgradeStrategyNone", False),
        ("False", "Other", False),
    ],
)
def test_pods_that_were_reported_as_outdated_before_are_explained(
    status: str, reason: str, *, expected: bool
):
    reported = {"type": "PodsUpToDate", "status": status, "reason": reason}
    assert explained(recorded(rolling(1), reported)) is expected


# -- pods that do not say what they were made from ---------------------------------------------


UNKNOWN_POD = pod("b")


def stamps(obj: Any, *pods: Pod, batch: int = 9, **changes: Any) -> dict[str, str]:
    """What is recorded on pods, by name."""
    seen = observed_object(obj, *pods, **changes)
    writes = list(stamp_writes(seen, desired_of(seen), batch=batch))
    assert all(isinstance(each, MergePatch) for each in writes)
    return {
        each.target.name: each.patch["metadata"]["annotations"][labels.TEMPLATE_HASH]
        for each in writes
        if isinstance(each, MergePatch)
    }


def test_pods_are_taken_to_be_made_from_the_specification_that_the_status_has_seen():
    obj = recorded(rolling(2))
    wanted = desired_of(observed_object(obj)).builder.hashes()["workers"]
    assert stamps(obj, old("a"), UNKNOWN_POD) == {"b": wanted}
    never_seen = recorded(rolling(2), observed=None)
    assert stamps(never_seen, UNKNOWN_POD) == {"b": wanted}


def test_after_an_edit_nobody_knows_unless_an_autoscaler_may_have_edited():
    edited = recorded(rolling(2), observed=0)
    assert stamps(edited, UNKNOWN_POD) == {"b": UNKNOWN}
    autoscaled = recorded(with_spec(rolling(2), enableInTreeAutoscaling=True), observed=0)
    assert stamps(autoscaled, UNKNOWN_POD)["b"] != UNKNOWN


def test_so_many_pods_are_recorded_at_a_time_and_none_while_a_write_has_no_outcome():
    obj = recorded(rolling(2))
    assert len(stamps(obj, UNKNOWN_POD, pod("c"), batch=1)) == 1
    pending = frozenset({worker_scope("workers")})
    assert stamps(obj, UNKNOWN_POD, pending_scopes=pending) == {}


def test_pods_that_go_and_those_of_removed_groups_need_not_say_it():
    gone, removed = pod("d", terminating=True), pod("c", group="removed")
    seen = observed_object(recorded(rolling(2)), gone, removed, UNKNOWN_POD)
    assert [found.metadata.name for found, _ in unstamped_pods(seen, desired_of(seen))] == ["b"]


def test_an_edit_is_not_seen_before_all_pods_say_what_they_were_made_from():
    def hides(obj: Any, *pods: Pod) -> bool:
        seen = observed_object(obj, *pods)
        return hides_an_edit(seen, desired_of(seen))

    edited = recorded(rolling(2), observed=0)
    assert hides(edited, UNKNOWN_POD)
    assert not hides(edited, old("a"))
    assert not hides(recorded(rolling(2)), UNKNOWN_POD)
    assert not hides(recorded(without_rolling(2), observed=0), UNKNOWN_POD)
