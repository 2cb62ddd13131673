"""Hashes that earlier versions of the operator have stored on pods."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controller.ray.pods.hashes import (
    FORMER,
    changed_fields,
    digest,
    field_digests,
    is_comparable,
    is_former,
    is_outdated,
    recreate_digest,
    template_digest,
)

Json = dict[str, Any]
GROUP: Json = {
    "groupName": "a",
    "template": {
        "spec": {
            "containers": [
                {
                    "name": "ray",
                    "image": "ray:1",
                    "env": [{"name": "B", "value": "1"}, {"name": "A", "value": "2"}],
                    "ports": [{"containerPort": 2}, {"containerPort": 1}],
                }
            ]
        }
    },
}
SPEC: Json = {"headGroupSpec": GROUP, "workerGroupSpecs": [GROUP]}
OF_GROUP = "1-H5H6Q0M46SH1FF8G7OOSGKQJIK8NC04K"
OF_SPEC = "1-I9O4J8A686MS682GDVSRGNCROB8EOJU4"
"""What the first version wrote for them."""
OF_PATHS = "2-QPJBRJ0O0LKGHP7T7801MN80BD5COODS"
"""What the second version wrote for the group with a mount at `/data/`."""


def edited(**changes: Any) -> Json:
    group = copy.deepcopy(GROUP)
    group["template"]["spec"]["containers"][0] |= changes
    return group


def reordered() -> Json:
    ray = GROUP["template"]["spec"]["containers"][0]
    return edited(env=ray["env"][::-1], ports=ray["ports"][::-1])


def test_a_hash_of_the_version_before_is_compared_with_the_same_of_the_present_template():
    assert not is_outdated(OF_GROUP, template_digest(GROUP))
    assert not is_outdated(OF_SPEC, recreate_digest(SPEC))
    assert is_outdated(OF_GROUP, template_digest(edited(image="ray:2")))
    assert is_outdated("1-unknown", template_digest(GROUP)), "an update that goes on"


def mounted(path: str) -> Json:
    return edited(volumeMounts=[{"name": "v", "mountPath": path}])


def test_a_hash_of_the_version_before_in_which_paths_counted_as_written_is_compared():
    assert template_digest(mounted("/data/")).by("2") == OF_PATHS
    assert not is_outdated(OF_PATHS, template_digest(mounted("/data/")))
    assert is_former(OF_PATHS, template_digest(mounted("/data/"))), "it gets a new one"
    assert is_outdated(OF_PATHS, template_digest(mounted("/data/other")))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (mounted("/data"), mounted("/data/"), True),
        (mounted("/data"), mounted("//data/./"), True),
        (mounted("/data"), mounted("/data/sub"), False),
        (edited(workingDir="/app"), edited(workingDir="/app/"), True),
        (GROUP | {"resources": {"CPU": "1"}}, GROUP | {"resources": {"CPU": "1000m"}}, True),
        (GROUP | {"resources": {"CPU": "1"}}, GROUP | {"resources": {"CPU": "2"}}, False),
    ],
)
def test_paths_and_amounts_are_compared_by_meaning(one: Json, other: Json, same: bool):
    assert (template_digest(one) == template_digest(other)) is same


@pytest.mark.parametrize(("second", "same"), [("b", True), ("a", False)])
def test_the_order_of_host_aliases_counts_only_if_they_have_a_name_in_common(
    second: str, same: bool
):
    aliases = [{"ip": "10.0.0.2", "hostnames": ["a"]}, {"ip": "10.0.0.1", "hostnames": [second]}]
    group, turned = copy.deepcopy(GROUP), copy.deepcopy(GROUP)
    group["template"]["spec"]["hostAliases"] = aliases
    turned["template"]["spec"]["hostAliases"] = aliases[::-1]
    assert (template_digest(group) == template_digest(turned)) is same


def test_a_list_in_another_order_is_no_other_template():
    assert not is_outdated(str(template_digest(GROUP)), template_digest(reordered()))
    former = recreate_digest({"headGroupSpec": reordered(), "workerGroupSpecs": [reordered()]})
    assert not is_outdated(str(recreate_digest(SPEC)), former)
    assert is_outdated(str(template_digest(GROUP)), template_digest(edited(ports=[])))


@pytest.mark.parametrize("stamped", [None, "", "0-OLD", "abc", "4-LATER"])
def test_a_hash_of_any_other_version_proves_nothing(stamped: str | None):
    assert not is_comparable(stamped)
    assert not is_outdated(stamped, template_digest(GROUP))


def test_a_digest_of_a_field_by_the_version_before_counts_as_well():
    lists = {"a": {"env": [{"name": "B"}, {"name": "A"}]}, "b": 1}
    former = f"a={digest(lists['a'], FORMER)[2:10]},b={digest(1, FORMER)[2:10]}"
    assert former != field_digests(lists)
    for recorded in (former, field_digests(lists)):
        assert changed_fields(recorded, lists) == set()
        assert changed_fields(recorded, lists | {"b": 2, "c": 3}) == {"b", "c"}
        assert changed_fields(recorded, {"b": 1}) == {"a"}
    assert changed_fields(None, lists) == set()
