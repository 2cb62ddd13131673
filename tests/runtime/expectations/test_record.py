"""What is recorded for an owner, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.kube.resources import CONFIG_MAPS, PODS, SERVICES
from controller.runtime.expectations import record
from controller.runtime.expectations.expectation import ObjectReference
from controller.runtime.expectations.expectations import Expectations
from controller.runtime.expectations.record import Owner, Record
from controller.runtime.kind import LogText
from controller.runtime.plan import LiveList, LogTail, ReplicaMember
from tests.runtime.kit import NOW

A = ObjectReference(CONFIG_MAPS, "default/a")
FIRST = Owner("uid-1", "default/f", "widgets")
NAMESAKE = Owner("uid-2", "default/f", "widgets")


def test_the_newest_revision_of_each_resource_is_kept():
    state = Record(FIRST)
    assert state.observe_revision(PODS, "9") == "9"
    assert state.observe_revision(PODS, "10") == "10"
    assert state.observe_revision(PODS, "9") == "10"
    assert state.observe_revision(SERVICES, "3") == "3"
    assert state.revisions == {PODS: "10", SERVICES: "3"}


def test_few_refuted_changes_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "MAX_REFUTED", 2)
    state = Record(FIRST)
    for name, revision in [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")]:
        state.refute(ObjectReference(CONFIG_MAPS, f"default/{name}"), revision)
    assert [*state.refuted.items()] == [
        (A, "3"),
        (ObjectReference(CONFIG_MAPS, "default/c"), "4"),
    ]


def test_the_objects_that_were_disowned_last_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "MAX_NAMES", 2)
    state = Record(FIRST)
    for name in ("b", "a", "b", "c"):
        state.disown(ObjectReference(CONFIG_MAPS, f"default/{name}"))
    assert [each.name for each in state.disowned] == ["b", "c"]


def test_a_create_outdates_live_lists_of_its_resource_only():
    state = Record(FIRST)
    pods, services = LiveList(PODS, "default", "a=b"), LiveList(SERVICES, "default", "a=b")
    state.lists = {pods, services}
    state.will_create(PODS)
    assert state.lists == {services}


def test_the_newest_logs_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "MAX_LOG_TAILS", 2)
    state = Record(FIRST)
    tails = [LogTail("default", "a=b", container) for container in "abc"]
    for tail in tails:
        state.keep_log(tail, LogText(tail.container))
    assert state.logs == {tails[1]: LogText("b"), tails[2]: LogText("c")}


def test_members_are_counted_until_their_replica_is_complete():
    state = Record(FIRST)
    for position, members in [(0, {"r": 1}), (1, {"r": 2}), (2, {})]:
        state.record_member(ReplicaMember("r", position, 3))
        assert state.incomplete_replicas == members
    state.record_member(ReplicaMember("alone", 0, 1))
    assert state.incomplete_replicas == {}


def test_the_replicas_that_grew_last_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "MAX_NAMES", 2)
    state = Record(FIRST)
    for replica, position in [("a", 0), ("b", 0), ("a", 1), ("c", 0)]:
        state.record_member(ReplicaMember(replica, position, 9))
    assert state.incomplete_replicas == {"a": 2, "c": 1}


def test_an_owner_is_known_by_its_latest_state_until_a_namesake_comes():
    expectations = Expectations(now=lambda: 0.0, wall=lambda: NOW)
    expectations.add_owner(FIRST)
    record = expectations.record("uid-1")
    expectations.add_owner(FIRST)
    assert expectations.record("uid-1") is record, "the same once more"
    ending = replace(FIRST, terminating=True)
    expectations.add_owner(ending)
    assert (record.owner, expectations.record("uid-1")) == (ending, record)
    expectations.remove_owner("widgets", "default/else")
    expectations.add_owner(NAMESAKE)
    assert expectations.record("uid-1") is not record
    assert expectations.record("uid-2").owner is NAMESAKE
    expectations.remove_owner("widgets", "default/f")
    expectations.remove_owner("widgets", "default/f")
    assert expectations.statistics().owners == 0


def test_an_owner_has_the_namespace_of_its_key():
    assert FIRST.namespace == "default"
    assert Owner("uid-3", "cluster-wide", "widgets").namespace == ""
