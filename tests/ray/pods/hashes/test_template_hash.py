"""Hashes alter when pods would, and only then."""

from __future__ import annotations

import copy
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from controller.ray.pods.hashes import (
    changed_fields,
    digest,
    field_digests,
    groups_only_in,
    is_outdated,
    recreate_digest,
    template_digest,
    templates_of,
    with_templates,
)
from tests.ray.cluster.support import manifest


def spec() -> dict[str, Any]:
    return manifest()["spec"]


def worker(raw: dict[str, Any]) -> dict[str, Any]:
    return raw["workerGroupSpecs"][0]


def container(raw: dict[str, Any]) -> dict[str, Any]:
    return worker(raw)["template"]["spec"]["containers"][0]


SCALING: list[Callable[[dict[str, Any]], Any]] = [
    lambda raw: worker(raw).update(replicas=9),
    lambda raw: worker(raw).update(minReplicas=1, maxReplicas=99),
    lambda raw: worker(raw).update(scaleStrategy={"workersToDelete": ["a"]}),
    lambda raw: worker(raw)["template"]["spec"].update(tolerations=[{"key": "a"}]),
    lambda raw: raw["headGroupSpec"]["template"]["spec"].update(schedulingGates=[{"name": "a"}]),
    lambda raw: raw.update(upgradeStrategy={"type": "Recreate"}),
    lambda raw: worker(raw).update(numOfHosts=1, priority=0),
    lambda raw: worker(raw).update(rayStartParams={}, labels=None),
    lambda raw: raw.update(suspend=False, enableInTreeAutoscaling=False),
    lambda raw: worker(raw).update(suspend=False),
    lambda raw: worker(raw).update(suspend=True),
    lambda raw: container(raw).update(env=[], command=None),
]
REAL: list[Callable[[dict[str, Any]], Any]] = [
    lambda raw: container(raw).update(image="other"),
    lambda raw: container(raw).update(env=[{"name": "A", "value": "1"}]),
    lambda raw: worker(raw).update(numOfHosts=2),
    lambda raw: worker(raw).update(groupName="other"),
    lambda raw: raw.update(suspend=True),
    lambda raw: raw.update(workerGroupSpecs=[]),
    lambda raw: raw["headGroupSpec"].update(rayStartParams={"a": "b"}),
]


@pytest.mark.parametrize("change", SCALING)
def test_scaling_scheduling_and_written_out_defaults_need_no_new_pods(change: Any):
    changed = copy.deepcopy(spec())
    change(changed)
    assert recreate_digest(changed) == recreate_digest(spec())


@pytest.mark.parametrize("change", REAL)
def test_a_real_change_alters_the_hash(change: Any):
    changed = copy.deepcopy(spec())
    change(changed)
    assert recreate_digest(changed) != recreate_digest(spec())


def test_the_hash_of_a_template_ignores_how_many_pods_there_are():
    group = worker(spec())
    assert template_digest(group | {"replicas": 7, "maxReplicas": 9}) == template_digest(group)
    assert template_digest(group | {"rayStartParams": {"a": "b"}}) != template_digest(group)


def test_defaults_that_a_schema_may_fill_in_make_no_difference():
    assert digest({"ports": [{"port": 1, "protocol": "TCP"}]}) == digest({"ports": [{"port": 1}]})
    assert digest({"ports": [{"port": 1, "protocol": "UDP"}]}) != digest({"ports": [{"port": 1}]})
    assert digest({"a": {"protocol": "TCP"}}) != digest({"a": {}})
    assert digest({"b": 1, "a": 0}) == digest({"a": 0, "b": 1, "c": None, "d": {"e": []}})
    assert digest({"a": 0}) != digest({})
    assert digest({"a": False}) != digest({})


def test_only_a_hash_of_the_same_algorithm_can_say_that_a_pod_is_outdated():
    wanted = digest({"a": 1})
    assert not is_outdated(wanted, wanted)
    assert is_outdated(digest({"a": 2}), wanted)
    assert not is_outdated(None, wanted)
    assert not is_outdated("0-XYZ", wanted)
    assert not is_outdated("KUBERAYHASH", wanted)


POD = {"spec": {"containers": [{"name": "ray", "image": "ray:1"}]}}
NEW_POD = {"spec": {"containers": [{"name": "ray", "image": "ray:2"}]}}


def group(name: str, template: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"groupName": name, "replicas": 2, "template": template} | more


OLD = {
    "rayVersion": "2.60.0",
    "headGroupSpec": {"template": POD, "serviceType": "ClusterIP"},
    "workerGroupSpecs": [group("a", POD, labels={"x": "1"}), group("gone", POD)],
}
NEW = {
    "rayVersion": "2.61.0",
    "suspend": False,
    "headGroupSpec": {"template": NEW_POD, "serviceType": "NodePort", "resources": {"CPU": "0"}},
    "workerGroupSpecs": [group("a", NEW_POD, replicas=5), group("added", NEW_POD)],
}


def test_what_comes_back_is_the_templates_and_the_version_and_nothing_else():
    before = deepcopy(NEW)
    assert with_templates(NEW, templates_of(OLD)) == {
        "rayVersion": "2.60.0",
        "suspend": False,
        "headGroupSpec": {"template": POD, "serviceType": "NodePort"},
        "workerGroupSpecs": [
            group("a", POD, replicas=5, labels={"x": "1"}),
            group("added", NEW_POD),
        ],
    }
    assert before == NEW


def test_a_version_that_was_not_given_is_not_given_again():
    assert "rayVersion" not in with_templates(NEW, templates_of({"headGroupSpec": {}}))


def test_groups_of_one_side_only_are_named():
    assert groups_only_in(NEW, OLD) == ("added",)
    assert groups_only_in(OLD, NEW) == ("gone",)


# -- comparison ----------------------------------------------------------------------------------


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


def test_fields_that_were_added_removed_or_changed_are_known_by_their_digests():
    lists = {"a": {"env": [{"name": "B"}, {"name": "A"}]}, "b": 1}
    recorded = field_digests(lists)
    assert changed_fields(recorded, lists) == set()
    assert changed_fields(recorded, lists | {"b": 2, "c": 3}) == {"b", "c"}
    assert changed_fields(recorded, {"b": 1}) == {"a"}
    assert changed_fields(None, lists) == set()
