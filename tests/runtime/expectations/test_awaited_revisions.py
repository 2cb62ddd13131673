"""Which keys a store has to show at a revision."""

from __future__ import annotations

from controller.kube.resources import PODS, SERVICES
from controller.runtime.expectations.tracker import AwaitedRevisions


def test_keys_are_returned_once_when_their_revision_is_reached():
    awaited = AwaitedRevisions()
    for revision, key in [("10", "c"), ("9", "a"), ("9", "b"), ("100", "d")]:
        awaited.add(PODS, "", revision, key)
    assert list(awaited.reached(PODS, "", "8")) == []
    assert list(awaited.reached(PODS, "", "9")) == ["a", "b"]
    assert list(awaited.reached(PODS, "", "99")) == ["c"]
    assert list(awaited.reached(PODS, "", "101")) == ["d"]
    assert list(awaited.reached(PODS, "", "101")) == []


def test_each_resource_and_scope_has_revisions_of_its_own():
    awaited = AwaitedRevisions()
    awaited.add(PODS, "one", "5", "a")
    assert list(awaited.reached(PODS, "two", "9")) == []
    assert list(awaited.reached(SERVICES, "one", "9")) == []
    assert list(awaited.reached(PODS, "one", "9")) == ["a"]


def test_opaque_revisions_are_never_reached():
    awaited = AwaitedRevisions()
    awaited.add(PODS, "", "opaque", "a")
    awaited.add(PODS, "", "5", "b")
    assert list(awaited.reached(PODS, "", "opaque")) == []
    assert list(awaited.reached(PODS, "", "9")) == ["b"]


def test_a_revision_may_have_more_digits_than_python_converts():
    awaited = AwaitedRevisions()
    awaited.add(PODS, "", "1" * 5000, "a")
    assert list(awaited.reached(PODS, "", "2" * 4999)) == []
    assert list(awaited.reached(PODS, "", "2" * 5000)) == ["a"]
