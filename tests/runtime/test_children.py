"""What a kind inherits, and what the operator says of one that lacks something."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.resources import CONFIG_MAPS, JOBS, NODES, Resource
from controller.runtime.children import Children, Seen
from controller.runtime.kind import Kind, Owned, missing_members
from controller.runtime.plan import NOTHING, Create, MergePatch, Plan
from controller.testing.cluster import EPOCH
from controller.testing.reads import FakeReads
from tests.examples.test_widget import observed, ready_in, writes
from tests.runtime.widgets import GADGETS, WIDGETS


class Bare(Kind[Any]):
    """Has nothing."""


class Complete(Kind[Any]):
    """Has the least."""

    primary = WIDGETS

    def plan(self, observation: Any, now: Any) -> Plan:
        return NOTHING


class HalfWay(Complete):
    """Has an observation of its own and nothing that reports failures."""

    def observe(self, key: str, reads: Any) -> Any:
        return key


def test_what_a_kind_lacks_is_named_all_at_once():
    assert missing_members(Bare()) == (
        "primary, the resource that it reconciles",
        "plan(observation, now), which returns what is to be done",
    )
    assert missing_members(HalfWay()) == ("status_after(...), because its observation is its own",)
    assert missing_members(Complete()) == ()


def test_a_kind_is_named_after_its_resource_unless_it_has_a_name():
    class Named(Complete):
        primary = GADGETS
        name = "mine"

    class Other(Complete):
        primary = GADGETS

    assert (Complete.name, HalfWay.name) == ("widget-controller", "widget-controller")
    assert (Named.name, Other.name) == ("mine", "gadget-controller")


def test_an_owned_resource_that_the_server_lacks_is_named_and_not_asked_for():
    class Owner(Complete):
        owned = (Owned(JOBS, optional=True),)

    reads = FakeReads(Owner()).add(WIDGETS, observed().obj)
    seen = Owner().observe("default/hello", reads)
    assert seen is not None
    plan = seen.converge(EPOCH, Children(JOBS, {"a": {}}))
    assert writes(plan) == []
    assert ready_in(plan) == ("NotInstalled", "the API server has no jobs.batch: install them")


def bare(*resources: Resource[Any]) -> Seen[Any]:
    """An object without children, where the server has these resources."""
    seen = observed()
    return Seen(seen.resource, seen.obj, {resource: {} for resource in resources})


def test_a_body_gets_its_type_its_name_and_its_owner():
    body = {"metadata": {"labels": {"a": "b"}, "namespace": "elsewhere"}, "data": {}}
    ((create,),) = bare(CONFIG_MAPS).converge(EPOCH, Children(CONFIG_MAPS, {"x": body})).stages
    assert isinstance(create, Create)
    (owner,) = create.body["metadata"].pop("ownerReferences")
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Widget", "uid-hello", True)
    assert create.body == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"labels": {"a": "b"}, "name": "x", "namespace": "default"},
        "data": {},
    }


def test_what_has_no_namespace_cannot_be_owned():
    with pytest.raises(ValueError, match="have no namespace"):
        bare(NODES).converge(EPOCH, Children(NODES, {"x": {}}))


def test_a_repair_of_a_field_that_is_not_read_is_a_mistake_of_the_kind():
    seen = observed()
    (child,) = FakeReads(Complete()).add(WIDGETS, seen.obj).objects.values()
    seen = Seen(seen.resource, seen.obj, {WIDGETS: {"x": child}})
    with pytest.raises(ValueError, match="Widget has no field colour: declare what is repaired"):
        seen.converge(EPOCH, Children(WIDGETS, {"x": {"colour": "red"}}, repairs=("colour",)))


def test_a_list_is_put_back_under_the_revision_that_was_seen():
    seen = observed()
    seen = Seen(seen.resource, seen.obj, {WIDGETS: {"x": seen.obj}})
    wanted = Children(WIDGETS, {"x": {"spec": {"copies": [1]}}}, repairs=("spec",))
    ((patch,),) = seen.converge(EPOCH, wanted).stages
    assert isinstance(patch, MergePatch)
    assert patch.resource_version == seen.obj.metadata.resource_version


def test_what_is_waited_for_and_what_was_warned_of_are_reported():
    assert ready_in(bare().converge(EPOCH, waiting="the pod starts")) == (
        "Waiting",
        "the pod starts",
    )
    seen = Seen(observed().resource, observed().obj, {}, warnings=("it is odd",))
    assert ready_in(seen.converge(EPOCH, waiting="the pod starts")) == ("Inconsistent", "it is odd")
