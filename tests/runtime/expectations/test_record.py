"""What is recorded for an owner, and for how long."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.kube.resources import PODS
from controller.runtime import record
from controller.runtime.expectations import Expectations
from controller.runtime.plan import Create, ReplicaMember, Target
from controller.runtime.record import Newest, Owner, Record
from tests.runtime.kit import NOW

FIRST = Owner("uid-1", "default/f", "widgets")
NAMESAKE = Owner("uid-2", "default/f", "widgets")


def test_the_values_that_were_set_last_are_kept():
    kept: Newest[str, int] = Newest(2)
    for number, name in enumerate(["a", "b", "a", "c"]):
        kept[name] = number
    assert list(kept.items()) == [("a", 2), ("c", 3)]


def test_what_others_can_make_many_of_is_bounded(monkeypatch: pytest.MonkeyPatch):
    for name in ("MAX_NAMES", "MAX_LOG_TAILS", "MAX_REFUTED"):
        monkeypatch.setattr(record, name, 2)
    state: Any = Record(FIRST)
    bounded = "refuted", "disowned", "create_errors", "logs", "failed_creates", "replicas"
    for name in bounded:
        getattr(state, name).__setitem__("a", 1)
        getattr(state, name).__setitem__("b", 1)
        getattr(state, name).__setitem__("c", 1)
        assert len(getattr(state, name)) == 2, name


def test_members_are_counted_until_their_replica_is_complete():
    state, target = Record(FIRST), Target(PODS, "default", "p")
    for position, members in [(0, {"r": 1}), (1, {"r": 2}), (2, {})]:
        member = ReplicaMember("r", position, 3)
        state._created(Create(target, {}, member))
        assert state.replicas == members
    state._created(Create(target, {}, ReplicaMember("alone", 0, 1)))
    assert state.replicas == {}


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
