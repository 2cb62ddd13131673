"""Which cause comes first, how long it is kept, and which events tell it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.apimachinery.patches import apply_merge_patch
from controller.kube.resources import PODS
from controller.ray.api import RayCluster
from controller.ray.cluster import RayClusterKind
from controller.runtime.plan import Create, Failure, StatusPatch, Target
from controller.testing.reads import FakeReads
from tests.ray.cluster.support import (
    NOW,
    cluster,
    head,
    pod,
    reads,
    unreadable,
    with_children,
    with_status,
    workers,
)

READY = (head(), *workers(2))
NAME = "example-workers-worker-b4x7k2mp"
QUOTA = "exceeded quota: team, requested: pods=1, used: pods=5, limited: pods=5"


def image(name: str, *, group: str = "workers", **more: Any) -> Any:
    state = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    containers = [{"name": "ray-worker", "state": state}]
    return pod(name, group, phase="Pending", containers=containers, **more)


def unscheduled(name: str, *, group: str = "workers", **more: Any) -> Any:
    said = {"reason": "Unschedulable", "message": "0/3 nodes are available"}
    conditions = [{"type": "PodScheduled", "status": "False", **said}]
    return pod(name, group, phase="Pending", node="", conditions=conditions, **more)


def refused(scope: str = "worker/workers", reason: str = "Forbidden", said: str = QUOTA) -> Failure:
    write = Create(Target(PODS, "default", NAME, scope), {})
    return Failure(write, reason, f'pods "{NAME}" is forbidden: {said}')


def unknown(scope: str = "worker/workers") -> Failure:
    write = Create(Target(PODS, "default", NAME, scope), {})
    return Failure(write, "OutcomeUnknown", "reset", unknown=True)


def patch_of(kept: FakeReads, *failures: Failure) -> StatusPatch:
    kind = RayClusterKind()
    seen = kind.observe("default/example", kept)
    assert seen is not None
    made = kind.plan(seen, NOW)
    status = kind.status_after(seen, made, failures, NOW) if failures else made.status
    assert status is not None
    return status


def after(obj: RayCluster, *pods: Any, failures: tuple[Failure, ...] = (), **more: Any) -> Any:
    """The cluster as it is stored after one pass, and the events of that pass."""
    patch = patch_of(with_children(reads(obj, *pods, **more)), *failures)
    stored = apply_merge_patch(obj.status, patch.wanted)
    return with_status(obj, stored), [(e.type, e.reason, e.note) for e in patch.events]


def ready_of(obj: RayCluster) -> tuple[str, str, str]:
    found = find_condition(obj.status["conditions"], "Ready") or {}
    return found["status"], found["reason"], found["message"]


def first(*pods: Any, failures: tuple[Failure, ...] = (), **more: Any) -> tuple[str, str]:
    return ready_of(after(cluster(), *pods, failures=failures, **more)[0])[1:]


def test_what_blocks_the_head_comes_before_what_blocks_workers():
    assert first(unscheduled("h", group="headgroup"), image("a"))[1].startswith("head: pod h ")
    assert first(failures=(refused("head"),))[0] == "QuotaExceeded"
    assert first(image("a"), failures=(refused("head"),))[1].startswith("head: cannot create")


def test_what_needs_help_comes_before_what_may_pass_and_what_takes_time_comes_last():
    assert first(head(), unscheduled("a"), image("b"))[0] == "ImagePullBackOff"
    assert first(head(), unscheduled("b"), pod("a", phase="Pending"))[0] == "Unschedulable"
    assert first(head(phase="Pending"), image("b"))[0] == "ImagePullBackOff"
    assert first(head(phase="Pending"), pod("a", phase="Pending"))[1].startswith("head: ")


def test_the_oldest_pod_is_named_so_that_newer_ones_change_nothing_but_the_count():
    old = image("z", created="2026-08-20T08:00:00Z")
    assert "pod z " in first(head(), old, image("a"))[1]
    assert first(head(), old, image("a"))[1].endswith("(and 1 more of group workers likewise)")
    assert first(head(), image("a"), old) == first(head(), old, image("a"))


def test_a_quota_that_is_too_small_has_a_reason_of_its_own():
    stored, events = after(cluster(), failures=(refused("head"),))
    assert ready_of(stored) == (
        "False",
        "QuotaExceeded",
        (
            f"head: cannot create a pod: pods is forbidden: {QUOTA}; "
            "ask for a larger quota or lower replicas"
        ),
    )
    [(kind, reason, note)] = events
    assert (kind, reason) == ("Warning", "FailedToCreateHeadPod")
    assert note == f"QuotaExceeded: {ready_of(stored)[2]}"


def test_what_was_refused_stays_said_while_nobody_can_ask_again():
    stored, _ = after(cluster(), head(), failures=(refused(),))
    said = ready_of(stored)
    for more in (
        {"failures": (unknown(),)},
        {"failures": (refused(reason="TooManyRequests", said="slow down"),)},
        {"pending": frozenset({"worker/workers"})},
    ):
        again, events = after(stored, head(), **more)
        assert ready_of(again) == said, more
        assert events == []
    elsewhere, _ = after(stored, head(), failures=(unknown("head"),))
    assert ready_of(elsewhere)[1] == "PodsMissing", "only as long as it is about the same part"
    cured, _ = after(stored, *READY)
    assert ready_of(cured)[0] == "True"


def test_the_status_follows_from_what_was_seen_alone():
    pods = (head(), image("a"), unscheduled("b"))
    one, _ = after(cluster(), *pods, failures=(refused(),))
    other, _ = after(cluster(), *reversed(pods), failures=(refused(),))
    assert one.status == other.status


def test_a_first_cause_is_reported_once_whatever_its_words_and_however_many_pods():
    stored, events = after(cluster(), head(), image("a"))
    assert [(kind, reason) for kind, reason, _ in events] == [("Warning", "ImagePullBackOff")]
    assert events[0][2] == ready_of(stored)[2]
    again, events = after(stored, head(), image("a"), image("b"))
    assert ready_of(again) != ready_of(stored)
    assert events == []
    replaced, events = after(again, head(), image("c"), image("d"))
    assert events == []
    _, events = after(replaced, head(), unscheduled("e"))
    assert [reason for _, reason, _ in events] == ["Unschedulable"]
    _, events = after(replaced, image("h", group="headgroup"), image("c"))
    assert len(events) == 1, "the same reason of another part is another cause"


def test_an_event_never_waits_for_the_counters():
    stored, _ = after(cluster(), head(), image("a"))
    assert patch_of(with_children(reads(stored, head(), unscheduled("a")))).urgent
    counted = patch_of(with_children(reads(stored, head(), image("a"), image("b"))))
    assert not counted.urgent, "another number in the message may wait"


@pytest.mark.parametrize("suspended", [True, None])
def test_a_suspended_cluster_says_only_that(suspended: bool | None):
    conditions = [{"type": "RayClusterSuspended", "status": "True"}]
    obj = with_status(cluster(suspend=suspended), {"conditions": conditions})
    stored, events = after(obj)
    assert ready_of(stored)[1] == "Suspended"
    assert events == []


def test_a_pod_that_does_not_go_matters_only_where_it_is_missed():
    stuck = pod("p", terminating=True)
    assert first(head(), workers(1)[0], stuck)[0] == "PodStuckTerminating"
    assert first(*READY, stuck)[0] == "AllPodsReady"


def test_objects_that_admission_changed_explain_why_pods_are_missing():
    doubt = "admission changed label ray.io/cluster of pods default/x; exempt them"
    reason, message = first(head(), said=(doubt,))
    assert reason == "AdmissionChangedObject"
    assert message == f"cluster: {doubt}"
    assert first(*READY, said=(doubt,))[0] == "AllPodsReady"


def test_names_and_heads_of_others_are_causes():
    taken = reads(cluster(), taken={"Service/default/example-head-svc"})
    assert patch_of(taken).events[0].reason == "NameTaken"
    foreign = head("old-head", owner_uid="previous")
    reason, message = first(foreign, *workers(2))
    assert reason == "ForeignHead"
    assert "uid previous" in message
    odd = reads(cluster(), *READY, odd=unreadable("example-workers-worker-x", "Expected `str`"))
    assert patch_of(odd).events[0].reason == "PodUnreadable"
