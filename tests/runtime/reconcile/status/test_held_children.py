"""Children that finalizers of others keep from being deleted are named, for every kind."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controller.kube.resources import CONFIG_MAPS, PODS, SERVICES, Resource
from controller.ray.api import RAYCLUSTERS
from controller.runtime.kind import Owned
from controller.runtime.status import (
    HeldChild,
    event_of_held_children,
    held_children,
    named_children,
    with_held_children,
)
from tests.runtime.kit import NOW, OWNER, child

LATER = NOW + timedelta(minutes=2)
READY = {"type": "Ready", "status": "True"}


def held_by(*finalizers: str, name: str = "a", terminating: bool = True) -> Any:
    found = child(name, terminating=terminating)
    metadata = msgspec.structs.replace(found.metadata, finalizers=finalizers)
    return msgspec.structs.replace(found, metadata=metadata)


def seen(resource: Resource[Any], *children: Any, served: bool = True) -> tuple[HeldChild, ...]:
    def by_index(asked: Resource[Any], index: str, value: str) -> list[Any]:
        assert (asked, index, value) == (resource, "owner", OWNER.uid)
        assert served
        return [*children]

    reads: Any = SimpleNamespace(serves=lambda _resource: served, by_index=by_index)
    return held_children((Owned(resource),), reads, OWNER)


def test_a_child_that_is_held_is_named_after_two_minutes_with_finalizer_time_and_remedy():
    found = seen(CONFIG_MAPS, held_by("example.com/hold"))
    assert [each.seconds_until_named(NOW) for each in found] == [120.0]
    assert named_children(found, LATER - timedelta(seconds=1)) == ""
    assert named_children(found, LATER) == (
        "ConfigMap a is being deleted since 2026-01-01T00:00:00Z, but kept by the finalizer "
        "example.com/hold: the controller that set it must remove it; if there is none any more, "
        "remove it by hand"
    )


@pytest.mark.parametrize(
    ("resource", "finalizers", "named"),
    [
        (CONFIG_MAPS, ("a.com/b", "foregroundDeletion", "c.com/d"), "finalizers a.com/b, c.com/d:"),
        (RAYCLUSTERS, ("ray.io/cleanup", "a.com/b"), "the finalizer a.com/b:"),
        (RAYCLUSTERS, ("ray.io/cleanup",), ""),
        (SERVICES, ("service.kubernetes.io/load-balancer-cleanup", "orphan"), ""),
        (CONFIG_MAPS, (), ""),
        (PODS, ("a.com/b",), ""),
    ],
)
def test_only_finalizers_of_others_are_named(
    resource: Resource[Any], finalizers: tuple[str, ...], named: str
):
    text = named_children(seen(resource, held_by(*finalizers)), LATER)
    assert named in text
    assert bool(text) is bool(named)


def test_what_is_not_deleted_or_cannot_be_read_is_not_held():
    assert seen(CONFIG_MAPS, held_by("a.com/b", terminating=False)) == ()
    assert seen(CONFIG_MAPS, held_by("a.com/b"), served=False) == ()


def test_of_many_children_eight_are_named_in_the_same_order_each_time():
    found = [held_by("a.com/b", name=f"{number:03}") for number in range(20)]
    text = named_children(seen(CONFIG_MAPS, *reversed(found)), LATER)
    assert text == named_children(seen(CONFIG_MAPS, *found), LATER)
    assert text.startswith("ConfigMap 000 ")
    assert text.count("ConfigMap") == 8
    assert text.endswith("; and so are 12 more")


def test_a_time_that_cannot_be_read_is_left_out():
    odd = child("a", terminating=True)
    metadata = msgspec.structs.replace(
        odd.metadata, finalizers=("a.com/b",), deletion_timestamp="soon"
    )
    text = named_children(seen(CONFIG_MAPS, msgspec.structs.replace(odd, metadata=metadata)), NOW)
    assert text.startswith("ConfigMap a is being deleted, but kept by the finalizer a.com/b:")


def test_the_condition_comes_and_goes_and_one_event_reports_it():
    wanted = with_held_children({"conditions": [READY]}, "a is kept", 7, NOW)
    (_, condition) = wanted["conditions"]
    assert condition["type"] == "ChildHeld"
    assert (condition["reason"], condition["message"]) == ("ForeignFinalizer", "a is kept")
    assert with_held_children(wanted, "", 7, NOW) == {"conditions": [READY]}
    assert with_held_children({"children": 3}, "a is kept", 7, NOW) == {"children": 3}
    (event,) = event_of_held_children({"conditions": [READY]}, "a is kept")
    assert (event.type, event.reason, event.note) == ("Warning", "ChildHeld", "a is kept")
    assert event_of_held_children(wanted, "a is kept") == ()
    assert event_of_held_children({}, "") == ()
