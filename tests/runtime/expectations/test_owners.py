"""What is recorded for an owner, and for how long."""

from __future__ import annotations

import pytest

from controller.kube.resources import CONFIG_MAPS, PODS, SERVICES
from controller.runtime.expectations import owners
from controller.runtime.expectations.overlay import ObjectReference
from controller.runtime.expectations.owners import Owner, OwnerIndex, OwnerState
from controller.runtime.kind import LogText
from controller.runtime.plan import LiveList, LogTail, ReplicaMember

A = ObjectReference(CONFIG_MAPS, "default/a")
FIRST = Owner("uid-1", "default/f", "widgets")
OTHER = Owner("uid-1", "default/f", "gadgets")
NAMESAKE = Owner("uid-2", "default/f", "widgets")


def with_expectation(index: OwnerIndex, uid: str = "uid-1") -> OwnerState:
    state = index.get(uid)
    assert state is not None
    state.expectations[A] = None
    return state


def test_the_newest_revision_of_each_resource_is_kept():
    state = OwnerState("default")
    assert state.observe_revision(PODS, "9") == "9"
    assert state.observe_revision(PODS, "10") == "10"
    assert state.observe_revision(PODS, "9") == "10"
    assert state.observe_revision(SERVICES, "3") == "3"
    assert state.revisions == {PODS: "10", SERVICES: "3"}


def test_few_refuted_changes_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(owners, "MAX_REFUTED", 2)
    state = OwnerState("default")
    for name, revision in [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")]:
        state.refute(ObjectReference(CONFIG_MAPS, f"default/{name}"), revision)
    assert [*state.refuted.items()] == [
        (A, "3"),
        (ObjectReference(CONFIG_MAPS, "default/c"), "4"),
    ]


def test_the_objects_that_were_disowned_last_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(owners, "MAX_DISOWNED", 2)
    state = OwnerState("default")
    for name in ("b", "a", "b", "c"):
        state.disown(ObjectReference(CONFIG_MAPS, f"default/{name}"))
    assert [each.name for each in state.disowned] == ["b", "c"]


def test_a_create_outdates_live_lists_of_its_resource_only():
    state = OwnerState("default")
    pods, services = LiveList(PODS, "default", "a=b"), LiveList(SERVICES, "default", "a=b")
    state.lists = {pods, services}
    state.will_create(PODS)
    assert state.lists == {services}


def test_the_newest_logs_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(owners, "MAX_LOG_TAILS", 2)
    state = OwnerState("default")
    tails = [LogTail("default", "a=b", container) for container in "abc"]
    for tail in tails:
        state.keep_log(tail, LogText(tail.container))
    assert state.logs == {tails[1]: LogText("b"), tails[2]: LogText("c")}


def test_members_are_counted_until_their_replica_is_complete():
    state = OwnerState("default")
    for position, members in [(0, {"r": 1}), (1, {"r": 2}), (2, {})]:
        state.record_member(ReplicaMember("r", position, 3))
        assert state.incomplete_replicas == members
    state.record_member(ReplicaMember("alone", 0, 1))
    assert state.incomplete_replicas == {}


def test_the_replicas_that_grew_last_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(owners, "MAX_INCOMPLETE_REPLICAS", 2)
    state = OwnerState("default")
    for replica, position in [("a", 0), ("b", 0), ("a", 1), ("c", 0)]:
        state.record_member(ReplicaMember(replica, position, 9))
    assert state.incomplete_replicas == {"a": 2, "c": 1}


def test_a_namesake_releases_what_was_expected_for_the_one_before():
    index = OwnerIndex()
    assert index.add(FIRST) == []
    with_expectation(index)
    assert index.add(FIRST) == [], "the same once more"
    assert index.add(NAMESAKE) == [A]
    assert index.get("uid-1") is None
    assert index.find(["uid-1", "uid-2"]) == [index.get("uid-2")]
    assert index.add(FIRST) == []
    assert [state.owners for state in index.all()] == [{"widgets": FIRST}]


def test_an_owner_stays_while_another_controller_has_it():
    index = OwnerIndex()
    index.add(FIRST)
    index.add(OTHER)
    state = with_expectation(index)
    assert index.remove("widgets", "default/f") == []
    assert index.remove("widgets", "default/f") == [], "it is gone already"
    assert state.owners == {"gadgets": OTHER}
    assert index.remove("gadgets", "default/else") == []
    assert index.remove("gadgets", "default/f") == [A]
    assert list(index.all()) == []


def test_an_owner_is_known_in_its_namespace_and_by_its_latest_state():
    index = OwnerIndex()
    index.add(FIRST)
    ending = Owner("uid-1", "default/f", "widgets", terminating=True)
    index.add(ending)
    state = index.get("uid-1")
    assert state is not None
    assert (state.namespace, state.owners) == ("default", {"widgets": ending})
    assert Owner("uid-3", "cluster-wide", "widgets").namespace == ""
