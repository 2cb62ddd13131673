"""Which differences of templates count, and which hashes can be compared."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controller.ray.pods.hashes import (
    changed_fields,
    field_digests,
    is_comparable,
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


def edited(**changes: Any) -> Json:
    group = copy.deepcopy(GROUP)
    group["template"]["spec"]["containers"][0] |= changes
    return group


def reordered() -> Json:
    ray = GROUP["template"]["spec"]["containers"][0]
    return edited(env=ray["env"][::-1], ports=ray["ports"][::-1])


def mounted(path: str) -> Json:
    return edited(volumeMounts=[{"name": "v", "mountPath": path}])


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
    assert not is_outdated(template_digest(GROUP), template_digest(reordered()))
    other = recreate_digest({"headGroupSpec": reordered(), "workerGroupSpecs": [reordered()]})
    assert not is_outdated(recreate_digest(SPEC), other)
    assert is_outdated(template_digest(GROUP), template_digest(edited(ports=[])))


@pytest.mark.parametrize("stamped", [None, "", "1-OLD", "abc", "4-LATER"])
def test_a_hash_of_any_other_version_proves_nothing(stamped: str | None):
    assert not is_comparable(stamped)
    assert not is_outdated(stamped, template_digest(GROUP))


def test_fields_that_were_added_removed_or_changed_are_known_by_their_digests():
    lists = {"a": {"env": [{"name": "B"}, {"name": "A"}]}, "b": 1}
    recorded = field_digests(lists)
    assert changed_fields(recorded, lists) == set()
    assert changed_fields(recorded, lists | {"b": 2, "c": 3}) == {"b", "c"}
    assert changed_fields(recorded, {"b": 1}) == {"a"}
    assert changed_fields(None, lists) == set()
