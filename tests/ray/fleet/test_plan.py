"""What is written to the copies of a fleet, and what is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.kube.objects import ObjectMeta, OwnerReference
from controller.ray.api.raycluster import RAYCLUSTERS, RayCluster
from controller.ray.api.rayclusterfleet import RayClusterFleet
from controller.ray.fleet.observe import index_of
from controller.runtime.kind import Unreadable
from controller.runtime.plan import Create, JsonPatch, MergePatch
from tests.ray.cluster.support import does_nothing, with_meta
from tests.ray.fleet.support import (
    NEW,
    OLD,
    cluster_spec,
    condition,
    created,
    deleted,
    fleet,
    goal,
    member,
    plan,
    told,
    with_status,
    writes,
)


def bodies(made: Any) -> list[dict[str, Any]]:
    return [dict(write.body) for write in writes(made) if isinstance(write, Create)]


def three(**more: Any) -> list[Any]:
    return [member(index, **more) for index in range(3)]


def test_copies_never_share_a_redis_namespace():
    options = {"redisAddress": "redis:6379", "externalStorageNamespace": "mine"}
    template = {"spec": cluster_spec(gcsFaultToleranceOptions=options)}
    made = bodies(plan(fleet(template=template)))
    chosen = {body["spec"]["gcsFaultToleranceOptions"]["externalStorageNamespace"] for body in made}
    assert chosen == {f"mine-{body['metadata']['name']}" for body in made}


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("fleet-0-bcdfghjk", 0),
        ("fleet-12-bcdfghjk", 12),
        ("fleet-012-bcdfghjk", None),
        ("fleet-1-bcdf", None),
        ("fleet-1-1-bcdfghjk", None),
        ("other-1-bcdfghjk", None),
    ],
)
def test_the_index_is_part_of_the_name(name: str, index: int | None):
    assert index_of(fleet().metadata, name) == index


@pytest.mark.parametrize(
    "change", [{"replicas": 4}, {"minReplicas": 1}, {"maxReplicas": 7}, {"suspend": True}], ids=str
)
def test_numbers_of_a_worker_group_are_changed_in_place(change: dict[str, Any]):
    spec = cluster_spec()
    spec["workerGroupSpecs"][0] |= change
    made = plan(fleet(template={"spec": spec}), *three())
    patches = writes(made)
    assert len(patches) == 3
    for patch in patches:
        assert isinstance(patch, JsonPatch)
        test, operation = patch.operations
        assert test["op"] == "test"
        ((field, value),) = change.items()
        assert operation["path"] == f"/spec/workerGroupSpecs/0/{field}"
        assert operation["value"] == value


def test_a_changed_number_of_copies_reaches_all_copies_and_replaces_none():
    made = plan(fleet(replicas=4), *three())
    assert created(made) == [3]
    patches = [write for write in writes(made) if isinstance(write, MergePatch)]
    assert [patch.patch for patch in patches] == [
        {"metadata": {"annotations": {"manta.dev/cluster-count": "4"}}}
    ] * 3


@pytest.mark.parametrize("image", [OLD, NEW])
def test_copies_are_suspended_and_resumed_whatever_their_template(image: str):
    suspended = fleet(template={"spec": cluster_spec(suspend=True)}, paused=True)
    patches = writes(plan(suspended, *three(image=image)))
    assert [patch.patch for patch in patches if isinstance(patch, MergePatch)] == [
        {"spec": {"suspend": True}}
    ] * 3
    resumed = fleet(template={"spec": cluster_spec(suspend=False)}, paused=True)
    asleep = three(image=image, ready=False, suspended=True, suspend=True)
    patches = writes(plan(resumed, *asleep))
    assert [patch.patch for patch in patches if isinstance(patch, MergePatch)] == [
        {"spec": {"suspend": False}}
    ] * 3


def test_an_upgrade_of_suspended_copies_keeps_to_the_budget():
    asleep = {"ready": False, "suspended": True, "suspend": True}
    suspended = fleet(template={"spec": cluster_spec(NEW, suspend=True)})
    old = three(image=OLD, **asleep)
    made = plan(suspended, *old)
    assert (created(made), deleted(made)) == ([0], [])
    for new in (member(0, NEW, ready=False, suspend=True), member(0, NEW, suspend=True)):
        assert deleted(plan(suspended, *old, new)) == [], "it is not suspended yet"
    made = plan(suspended, *old, member(0, NEW, **asleep))
    assert deleted(made) == [old[0].metadata.name]


def test_a_deleted_fleet_leaves_its_copies_to_the_garbage_collector():
    assert does_nothing(plan(fleet(terminating=True), *three()))


def test_an_invalid_template_is_named_once_and_touches_nothing():
    wrong = fleet(template={"spec": cluster_spec(workerGroupSpecs={})})
    made = plan(wrong, *three())
    assert writes(made) == []
    status, reason, message = condition(made, "Ready")
    assert (status, reason) == ("False", "InvalidRayClusterFleetSpec")
    assert message.startswith("spec.template.spec.workerGroupSpecs: ")
    assert told(made) == ["InvalidRayClusterFleetSpec"]
    assert told(plan(with_status(wrong, made), *three())) == []
    lost = plan(with_status(wrong, made), member(0), member(1, ready=False))
    assert lost.status is not None
    assert (lost.status.wanted["replicas"], lost.status.wanted["readyReplicas"]) == (2, 1)


WRONG = {"spec": cluster_spec(workerGroupSpecs={})}


def upgrading_to(image: str, *copies: RayCluster) -> RayClusterFleet:
    """A fleet whose upgrade to this image had begun before the edit that makes it invalid."""
    begun = fleet(image)
    made = plan(begun, *copies)
    return msgspec.structs.replace(fleet(template=WRONG), status=with_status(begun, made).status)


@pytest.mark.parametrize(("wanted", "other"), [(NEW, OLD), (OLD, NEW)])
def test_of_an_invalid_fleet_only_copies_that_are_replaced_already_go(wanted: str, other: str):
    old = [member(index, other) for index in range(3)]
    copies = (*old, member(0, wanted), member(1, wanted, ready=False))
    wrong = upgrading_to(wanted, *copies)
    made = plan(wrong, *copies)
    assert deleted(made) == [copies[0].metadata.name]
    assert created(made) == []
    assert made.status is not None
    updated = {each["name"]: each["updated"] for each in made.status.wanted["clusters"]}
    assert [name for name, is_new in updated.items() if is_new] == [
        each.metadata.name for each in copies[3:]
    ]
    assert writes(plan(wrong, *copies, pending=frozenset({"rayclusters"}))) == []
    unknown = msgspec.structs.replace(wrong, status=wrong.status | {"templateHash": "x"})
    assert writes(plan(unknown, *copies)) == []
    unstamped = with_meta(copies[0], annotations={})
    assert writes(plan(wrong, unstamped, *copies[1:])) == []


def test_a_name_that_another_owner_has_is_told_and_blocks_only_its_index():
    owner = OwnerReference(api_version="x/v1", kind="Other", name="o", uid="other", controller=True)
    foreign = with_meta(member(0), owner_references=(owner,))
    made = plan(fleet(), foreign)
    assert created(made) == [1, 2]
    status, reason, message = condition(made, "Ready")
    assert (status, reason) == ("False", "NameTaken")
    assert "belongs to Other o" in message
    assert made.requeue_after == 60


def test_while_a_copy_cannot_be_read_nothing_is_created_or_deleted():
    name = member(0).metadata.name
    odd = {RAYCLUSTERS: {name: Unreadable(ObjectMeta(name=name), "spec: too deep")}}
    made = plan(fleet(NEW), member(1, OLD), member(2, OLD), odd=odd)
    assert writes(made) == []
    assert "spec: too deep" in condition(made, "Ready")[2]
    assert made.requeue_after == 60


def test_an_invalid_fleet_keeps_a_condition_that_has_no_reason():
    stored = {"type": "Upgrading", "status": "True", "reason": {"odd": 1}}
    made = plan(fleet(NEW, status={"conditions": [stored]}, template={"spec": {"odd": 1}}))
    assert writes(made) == []
    assert condition(made, "Ready")[0] == "False"


UNREADABLE = {
    "status: it is no object": "odd",
    "status.conditions: it is no list": {"conditions": {"type": "Ready"}},
    "status.conditions[0]: it has no type": {"conditions": [7]},
    "status.conditions[0].status: it is not True, False or Unknown": {
        "conditions": [{"type": "Ready", "status": True}]
    },
}


@pytest.mark.parametrize(("said", "status"), UNREADABLE.items())
@pytest.mark.parametrize("replicas", [2, 3])
def test_a_copy_whose_conditions_cannot_be_read_is_not_deleted_for_not_being_ready(
    said: str, status: Any, replicas: int
):
    odd = msgspec.structs.replace(member(0, OLD), status=status)
    asked = fleet(NEW, replicas=replicas)
    made = plan(asked, odd, member(1, OLD), member(2, OLD))
    assert writes(made) == []
    assert said in condition(made, "Ready")[2]


@pytest.mark.parametrize("status", [None, {}, {"conditions": None}, {"conditions": []}])
def test_a_copy_that_has_reported_nothing_yet_keeps_nothing_waiting(status: Any):
    new = msgspec.structs.replace(member(2, OLD), status=status)
    assert deleted(plan(fleet(NEW), member(0), member(1), new)) == [new.metadata.name]


def test_only_a_change_of_meaning_replaces_copies():
    spec = cluster_spec(managedBy="ray.io/kuberay-operator", suspend=False)
    spec = dict(reversed(spec.items()))
    made = plan(fleet(template={"spec": spec}), *three())
    assert (created(made), deleted(made)) == ([], [])
    relabelled = {"metadata": {"labels": {"a": "b"}}, "spec": cluster_spec()}
    assert created(plan(fleet(template=relabelled), *three())) == [0]


# -- changes without an edit


def settled() -> Any:
    """A fleet whose status is about its present generation."""
    first = fleet(NEW)
    return with_status(first, plan(first, *three()))


def test_a_template_that_changes_without_an_edit_replaces_nothing_until_an_edit():
    before = settled()
    odd = fleet(OLD, status=before.status)
    made = plan(odd, *three())
    assert writes(made) == []
    status, _, message = condition(made, "ChangesHeld")
    assert status == "True"
    assert "has another template now, without an edit" in message
    assert told(made)[0] == "ChangesHeld"
    after = with_status(odd, made)
    assert after.status["templateHash"] == str(goal(before).template_hash)
    assert "ChangesHeld" not in told(plan(after, *three()))
    edited = fleet(OLD, status=after.status, generation=3)
    assert created(plan(edited, *three())) == [0]


def test_fewer_copies_without_an_edit_delete_none():
    odd = fleet(NEW, replicas=1, status=settled().status)
    made = plan(odd, *three())
    assert writes(made) == []
    assert "asked for 3 copies and now asks for 1" in condition(made, "ChangesHeld")[2]


def test_an_edit_explains_both():
    edited = fleet(OLD, replicas=2, generation=3, status=settled().status)
    made = plan(edited, *three())
    assert len(deleted(made)) == 1


def test_a_specification_that_was_invalid_at_its_generation_explains_itself_once_it_is_valid():
    before = settled()
    wrong = fleet(generation=3, template={"spec": {}}, status=before.status)
    refused = with_status(wrong, plan(wrong, *three()))
    valid = fleet(OLD, generation=3, status=refused.status)
    assert created(plan(valid, *three())) == [0]
