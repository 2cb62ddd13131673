"""No worker is deleted for a number in the specification that nothing explains."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import find_condition
from controller.apimachinery.patches import apply_merge_patch
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import RAYCLUSTERS, RayCluster
from controller.ray.api.labels import TEMPLATE_HASH
from controller.runtime.kind import InstalledSchema
from controller.runtime.plan import Create, Delete, Plan
from controller.testing.reads import FakeReads
from tests.ray.api.test_installed_definition import without
from tests.ray.cluster.support import (
    cluster,
    head,
    manifest,
    plan,
    pod,
    reads,
    unreadable,
    with_meta,
    workers,
)
from tests.ray.cluster.test_plan import SERVICE, verbs
from tests.ray.cluster.upgrade.rolling.scenes import draining
from tests.ray.cluster.upgrade.test_recreate import OLD, stamped, stamps, upgraded, wanted
from tests.ray.cluster.workers.test_multi_host import whole

HELD = {"type": "DeletionHeld", "status": "True"}
AUTOSCALED = {"enableInTreeAutoscaling": True}
LONG_AGO = "2026-01-01T00:00:00Z"


def observed(obj: RayCluster, desired: int | None, *conditions: dict[str, Any]) -> RayCluster:
    """The object with the status that was written for its generation, for so many workers."""
    status = {"observedGeneration": 1, "conditions": list(conditions)}
    more = {} if desired is None else {"desiredWorkerReplicas": desired}
    return msgspec.structs.replace(obj, status=obj.status | status | more)


def kept(obj: RayCluster, *pods: Any, **more: Any) -> FakeReads:
    return reads(obj, head(), *pods, **more).add(SERVICES, SERVICE)


def with_groups(*groups: dict[str, Any], **spec: Any) -> RayCluster:
    raw = manifest()
    template = raw["spec"]["workerGroupSpecs"][0]
    raw["spec"]["workerGroupSpecs"] = [template | group for group in groups]
    return cluster(raw, **spec)


def deleted(made: Plan) -> list[str]:
    return verbs(made, Delete)


def stored(reads_: FakeReads, made: Plan) -> dict[str, Any]:
    """The status after the plan."""
    assert made.status is not None
    before = reads_.get(RAYCLUSTERS, "default/example").status
    return apply_merge_patch(before, made.status.wanted)


@pytest.mark.parametrize(
    ("obj", "pods"),
    [
        pytest.param(with_groups(), workers(25), id="all groups are gone"),
        pytest.param(with_groups({"replicas": 1}), workers(25), id="fewer replicas"),
        pytest.param(
            with_groups({"replicas": 2}),
            [*whole("a", hosts=4), *whole("b", hosts=4)],
            id="fewer hosts",
        ),
    ],
)
def test_a_number_that_shrinks_within_a_generation_deletes_nothing_and_is_said(
    obj: RayCluster, pods: list[Any]
):
    before = kept(observed(obj, 25), *pods)
    made = plan(before)
    assert made.stages == ()
    status = stored(before, made)
    held = find_condition(status["conditions"], "DeletionHeld")
    assert held is not None
    assert held["message"].startswith(f"{len(pods)} pods (") or "24 pods" in held["message"]
    assert held["message"].endswith("if the pods are to go, delete them, or edit the specification")
    ready = find_condition(status["conditions"], "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("False", "DeletionHeld")
    assert status["desiredWorkerReplicas"] == 25, "else the next plan would take it for explained"
    assert [event.reason for event in made.status.events] == ["DeletionHeld"]

    again = plan(kept(observed(obj, 25, *status["conditions"]), *pods))
    assert (again.stages, again.status.events) == ((), ())


def test_a_number_counts_as_explained_once_the_user_has_deleted_what_was_held():
    """Else a rolling update waits for an edit that nobody asks for, as no condition is left."""
    scaler_edit = with_meta(
        observed(with_groups({"replicas": 2}, enableInTreeAutoscaling=True), 5, HELD), generation=2
    )
    surplus = kept(scaler_edit, *workers(3))
    assert stored(surplus, plan(surplus))["desiredWorkerReplicas"] == 5

    none = kept(scaler_edit, *workers(2))
    status = stored(none, plan(none))
    assert status["desiredWorkerReplicas"] == 2
    assert find_condition(status["conditions"], "DeletionHeld") is None


OF_A_GROUP_THAT_IS_GONE = [pod(f"gone-{i}", "gone") for i in range(4)]
UNKNOWN_OUTCOME = {"pending": frozenset({"worker/gone"})}
UNREADABLE = {"odd": unreadable("gone-0", "x", **{"ray.io/cluster": "example"})}


@pytest.mark.parametrize(
    ("pods", "hidden"),
    [
        pytest.param(OF_A_GROUP_THAT_IS_GONE, UNKNOWN_OUTCOME, id="others are lost"),
        pytest.param(workers(4), UNKNOWN_OUTCOME, id="they are being created"),
        pytest.param(workers(4), UNREADABLE, id="they are unreadable"),
    ],
)
def test_no_number_counts_as_explained_while_workers_may_be_hidden(
    pods: list[Any], hidden: dict[str, Any]
):
    """Else they are deleted as soon as they are seen."""
    obj = observed(with_groups({"replicas": 4}), 8)
    before = kept(obj, *pods, **hidden)
    status = stored(before, plan(before))
    assert status["desiredWorkerReplicas"] == 8
    later = kept(msgspec.structs.replace(obj, status=status), *workers(4), *OF_A_GROUP_THAT_IS_GONE)
    assert deleted(plan(later)) == []


def test_workers_that_one_group_lacks_do_not_make_up_for_those_that_another_has_beyond_its_number():
    groups = with_groups({"replicas": 2}, {"groupName": "x", "replicas": 9}, **AUTOSCALED)
    before = kept(observed(groups, 20), *workers(3))
    assert stored(before, plan(before))["desiredWorkerReplicas"] == 20


@pytest.mark.parametrize(
    ("hidden", "by_autoscaler"),
    [(UNKNOWN_OUTCOME, True), (UNKNOWN_OUTCOME, False), (UNREADABLE, False)],
)
def test_what_is_held_stays_held_while_its_pods_are_hidden(
    hidden: dict[str, Any], by_autoscaler: bool
):
    obj = with_groups({"replicas": 9}, enableInTreeAutoscaling=by_autoscaler)
    held = HELD | {"observedGeneration": 1, "reason": "NotExplained", "message": "4 pods"}
    held["lastTransitionTime"] = LONG_AGO
    obj = observed(obj, 9 + 4 * by_autoscaler, held)
    before = kept(obj, *([] if "odd" in hidden else OF_A_GROUP_THAT_IS_GONE), **hidden)
    made = plan(before)
    assert made.status is not None
    assert "DeletionHeld" not in {event.reason for event in made.status.events}, "it was told"
    status = stored(before, made)
    assert find_condition(status["conditions"], "DeletionHeld") == held
    seen_again = with_meta(
        msgspec.structs.replace(obj, status=status), generation=2 if by_autoscaler else 1
    )
    assert deleted(plan(kept(seen_again, *OF_A_GROUP_THAT_IS_GONE))) == []


def test_the_rest_of_a_large_scale_down_is_explained_by_the_status():
    obj = observed(with_groups({"replicas": 1}), 1)
    assert len(deleted(plan(kept(obj, *workers(25))))) == 24


def test_what_the_pods_own_state_or_the_autoscaler_demands_is_never_held():
    obj = with_groups({"replicas": 1, "scaleStrategy": {"workersToDelete": ["named"]}})
    pods = [pod("named"), pod("failed", phase="Failed"), *workers(3)]
    assert sorted(deleted(plan(kept(observed(obj, 25), *pods)))) == ["failed", "named"]


def test_a_group_with_held_deletions_creates_nothing():
    broken = whole("b", hosts=4, phase="Failed")
    obj = observed(with_groups({"replicas": 3}), 12)
    made = plan(kept(obj, *whole("a", hosts=4), *broken))
    assert verbs(made, Create) == []
    assert sorted(deleted(made)) == ["b-0", "b-1", "b-2", "b-3"]

    short = observed(with_groups({"replicas": 5}), 20)
    made = plan(kept(short, *whole("a", hosts=4)))
    assert (verbs(made, Create), deleted(made)) == ([], []), "five single pods, beside what is held"


def test_what_is_held_stays_held_until_the_next_edit_whatever_the_numbers_say():
    pods = [*whole("a", hosts=4), *workers(2)]
    of_this_generation = HELD | {"observedGeneration": 1}
    assert (
        deleted(plan(kept(observed(with_groups({"replicas": 2}), 2, of_this_generation), *pods)))
        == []
    )
    earlier = HELD | {"observedGeneration": 0}
    assert deleted(plan(kept(observed(with_groups({"replicas": 2}), 2, earlier), *pods)))


def test_an_autoscalers_edit_does_not_release_what_is_held():
    for autoscaling, expected in ((True, 0), (False, 25)):
        obj = observed(with_groups(enableInTreeAutoscaling=autoscaling), 25, HELD)
        made = plan(kept(with_meta(obj, generation=2), *workers(25)))
        assert len(deleted(made)) == expected


@pytest.mark.parametrize("before", [4, 6, None])
def test_what_is_held_stays_held_whatever_number_an_autoscaler_asks_for(before: int | None):
    """A group that is gone counts for less than those that grow."""
    grown = with_groups({"replicas": 6}, enableInTreeAutoscaling=True)
    obj = with_meta(observed(grown, before, HELD | {"observedGeneration": 1}), generation=2)
    assert deleted(plan(kept(obj, *workers(2), *OF_A_GROUP_THAT_IS_GONE))) == []


def test_a_restored_specification_ends_the_hold():
    before = kept(observed(with_groups({"replicas": 3}), 3, HELD), *workers(3))
    status = stored(before, plan(before))
    assert find_condition(status["conditions"], "DeletionHeld") is None


def recreated(obj: RayCluster, *conditions: dict[str, Any], **known: Any) -> Plan:
    """What a Recreate cluster whose head is of another specification does."""
    settled = kept(observed(obj, 2, *conditions), *workers(2), listed=True, **known)
    settled.objects = {k: v for k, v in settled.objects.items() if "example-head-a" not in k[1]}
    return plan(settled.add(PODS, stamped(OLD)))


def test_a_held_replacement_counts_no_pod_that_is_terminating():
    going = [pod(each.metadata.name, terminating=True) for each in workers(2)]
    before = reads(observed(upgraded(), 2), stamped(OLD), *going, listed=True)
    made = plan(before.add(SERVICES, SERVICE))
    held = find_condition(stored(before, made)["conditions"], "DeletionHeld")
    assert held is not None
    assert held["message"].startswith("1 pod (example-head-aaaaaaaa) would be deleted ")


def test_an_edit_replaces_all_pods_however_long_it_takes():
    edited = with_meta(upgraded(), generation=2)
    first = recreated(edited)
    assert len(deleted(first)) == 3
    assert first.status is not None
    under_way = find_condition(first.status.wanted["conditions"], "PodsUpToDate")
    assert under_way is not None
    assert under_way["reason"] == "Recreating"
    assert len(deleted(recreated(upgraded(), dict(under_way)))) == 3


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("spec.workerGroupSpecs", 0),
        ("spec.workerGroupSpecs.numOfHosts", 0),
        ("spec.enableInTreeAutoscaling", 0),
        ("spec.upgradeStrategy.rollingUpdate", 3),
    ],
)
def test_an_edit_that_an_incomplete_definition_has_read_replaces_nothing_and_this_is_said(
    path: str, count: int
):
    """It would replace all pods by those of what is left of the specification."""
    schemas = {RAYCLUSTERS: without(RAYCLUSTERS, path)}
    made = recreated(with_meta(upgraded(), generation=2), schemas=schemas)
    assert len(deleted(made)) == count
    assert made.status is not None
    conditions = made.status.wanted["conditions"]
    held = find_condition(conditions, "DeletionHeld")
    if count:
        assert held is None
        return
    assert held is not None
    assert f"but the installed definition lacks {path}" in held["message"]
    known = [each for each in conditions if each["type"] in {"DeletionHeld", "PodsUpToDate"}]
    counted = {"type": "HeadPodReady", "status": "True", "observedGeneration": 2}
    later = recreated(with_meta(upgraded(), generation=2), counted, *known)
    assert deleted(later) == [], "a complete definition does not bring back what was dropped"


def test_a_replacement_stays_held_although_no_count_of_the_edit_was_stored_with_that():
    edit, held = with_meta(upgraded(), generation=2), HELD | {"observedGeneration": 2}
    assert deleted(recreated(edit, held)) == []
    assert len(deleted(recreated(edit, held | {"observedGeneration": 1}))) == 3


def test_a_pod_that_drained_before_the_strategy_was_changed_holds_nothing():
    under_way = {"type": "PodsUpToDate", "status": "False", "reason": "Recreating"}
    counted = {"type": "HeadPodReady", "status": "True", "observedGeneration": 1}
    obj = observed(upgraded(), 2, under_way, counted)
    drained = pod("a", annotations=draining() | {TEMPLATE_HASH: "3-old"})
    seen = reads(obj, stamped(OLD), drained, pod("b"), listed=True).add(SERVICES, SERVICE)
    made = plan(seen)
    assert len(deleted(made)) == 3
    assert made.status is not None
    told = made.status.wanted.get("conditions", obj.status["conditions"])
    assert find_condition(told, "DeletionHeld") is None
    assert (find_condition(told, "PodsUpToDate") or {})["reason"] == "Recreating"


@pytest.mark.parametrize(("autoscaling", "count"), [(True, 0), (False, 3)])
def test_an_autoscalers_edit_does_not_release_a_replacement_that_is_held(
    autoscaling: bool, count: int
):
    obj = upgraded(enableInTreeAutoscaling=autoscaling)
    edit = with_meta(obj, generation=2)
    assert len(deleted(recreated(edit, HELD | {"observedGeneration": 1}))) == count


def test_an_outdated_head_is_never_stamped_with_the_hash_of_another_specification():
    """Else a replacement of more pods than one batch has would end half-way."""
    made = recreated(with_meta(upgraded(), generation=2))
    assert stamps(made) == []
    assert wanted(upgraded()) != OLD


# -- a definition that is not known yet --------------------------------------------------------

AWAITED = {RAYCLUSTERS: InstalledSchema(is_current=False)}


@pytest.mark.parametrize("status", [observed(with_groups(), 25), with_groups()])
def test_an_edit_waits_until_it_is_certain_by_which_definition_it_was_read(status: RayCluster):
    obj = with_meta(status, generation=2)
    made = plan(kept(obj, *workers(25), schemas=AWAITED))
    assert made == Plan(requeue_after=1.0), "no status: it would tell that the edit was observed"
    assert len(deleted(plan(kept(obj, *workers(25))))) == 25


def test_an_event_says_why_a_definition_cannot_be_read_that_an_edit_waits_for():
    obj = with_meta(observed(with_groups(), 25), generation=2)
    unread = {RAYCLUSTERS: InstalledSchema(error="connection refused", is_current=False)}
    made = plan(kept(obj, *workers(25), schemas=unread))
    assert (made.stages, made.requeue_after) == ((), 30.0)
    [event] = made.events
    assert made.status is not None
    assert made.status.wanted.keys() == {"conditions"}, "nothing tells that the edit was observed"
    condition = find_condition(made.status.wanted["conditions"], "DefinitionComplete")
    assert condition is not None
    assert (condition["status"], condition["message"]) == ("Unknown", event.note)
    assert (event.type, event.reason) == ("Warning", "DefinitionUnread")
    assert event.note.startswith("generation 2 of the specification waits")
    assert event.note.endswith("connection refused")


def test_what_no_edit_has_changed_does_not_wait_for_a_definition():
    obj = observed(with_groups({"replicas": 2}), 2)
    made = plan(kept(obj, pod("failed", phase="Failed"), *workers(1), schemas=AWAITED))
    assert deleted(made) == ["failed"]


def test_a_new_cluster_does_not_wait_for_a_definition():
    assert verbs(plan(reads(cluster(), schemas=AWAITED)), Create)


def test_a_deleted_cluster_does_not_wait_for_a_definition():
    obj = with_meta(
        observed(with_groups(), 25), generation=2, deletion_timestamp="2026-01-01T00:00:00Z"
    )
    assert plan(kept(obj, *workers(25), schemas=AWAITED)).requeue_after != 1.0


# -- an edit that is newer than the schema -----------------------------------------------------


def edited(obj: RayCluster, *pods: Any, **schema: Any) -> Plan:
    """What is done about the second generation before the schema was read again."""
    unverified = frozenset({"RayCluster/default/example"})
    schemas = {RAYCLUSTERS: InstalledSchema(**schema)}
    seen = kept(with_meta(obj, generation=2), *pods, unverified=unverified, schemas=schemas)
    return plan(seen)


@pytest.mark.parametrize(
    ("obj", "pods"),
    [
        pytest.param(observed(with_groups(), 25), workers(25), id="all groups are gone"),
        pytest.param(observed(with_groups(), 25), [], id="no worker is there yet"),
        pytest.param(
            observed(with_groups({"replicas": 9}), 8),
            [*whole("a", hosts=4), *whole("b", hosts=4)],
            id="fewer hosts, and more in all",
        ),
    ],
)
def test_an_edit_that_asks_for_less_waits_until_the_schema_was_read_after_it(
    obj: RayCluster, pods: list[Any]
):
    assert edited(obj, *pods) == Plan(requeue_after=1.0)


def test_an_edit_that_replaces_all_pods_waits_for_the_schema():
    settled = kept(with_meta(observed(upgraded(), 2), generation=2), *workers(2), listed=True)
    settled.objects = {k: v for k, v in settled.objects.items() if "example-head-a" not in k[1]}
    settled.add(PODS, stamped(OLD))
    assert len(deleted(plan(settled))) == 3
    settled.unverified = frozenset({"RayCluster/default/example"})
    assert plan(settled) == Plan(requeue_after=1.0)


def test_a_deleted_cluster_does_not_wait_for_the_schema():
    obj = with_meta(observed(with_groups(), 25), deletion_timestamp="2026-01-01T00:00:00Z")
    assert edited(obj, *workers(25)).requeue_after != 1.0


def test_a_condition_says_why_the_schema_cannot_be_read_that_an_edit_waits_for():
    made = edited(observed(with_groups(), 25), *workers(25), error="connection refused")
    assert made.status is not None
    [condition] = made.status.wanted["conditions"]
    assert (condition["type"], condition["reason"]) == ("DefinitionComplete", "OpenAPIUnreadable")
    assert condition["message"].endswith("connection refused")


# -- an edit beside a definition that lacks a field, and is complete before the wait is over ------

LACKING = without(RAYCLUSTERS, "spec.workerGroupSpecs.numOfHosts")
COMPLETE = {RAYCLUSTERS: without(RAYCLUSTERS)}


@pytest.mark.parametrize(
    ("is_current", "unverified"),
    [
        pytest.param(False, frozenset[str](), id="its watch is a new one"),
        pytest.param(True, frozenset({"RayCluster/default/example"}), id="it is older"),
    ],
)
def test_what_the_last_definition_lacks_is_held_while_another_one_is_awaited(
    is_current: bool, unverified: frozenset[str]
):
    obj = with_meta(observed(with_groups({"replicas": 1}), 4), generation=2)
    schemas = {RAYCLUSTERS: replace(LACKING, is_current=is_current)}
    before = kept(obj, *whole("a", hosts=4), unverified=unverified, schemas=schemas)
    waiting = plan(before)
    assert (waiting.stages, waiting.requeue_after) == ((), 1.0)
    assert waiting.status is not None
    assert waiting.status.wanted.keys() == {"conditions"}, "nothing tells that it was observed"
    assert [event.reason for event in waiting.status.events] == ["DeletionHeld"]

    told = msgspec.structs.replace(obj, status=stored(before, waiting))
    assert deleted(plan(kept(told, *whole("a", hosts=4), schemas=COMPLETE))) == []
    obj = msgspec.structs.replace(told, status=told.status | {"conditions": []})
    assert len(deleted(plan(kept(obj, *whole("a", hosts=4), schemas=COMPLETE)))) == 4
