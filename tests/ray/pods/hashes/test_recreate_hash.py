"""The hash of a specification, under every change that means nothing and every one that does."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.ray.pods.hashes import recreate_digest
from tests.ray.api.definitions.test_definitions import kuberay, schema

Path = tuple[str | int, ...]


def template(name: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"team": "a", "flag": ""}, "annotations": {"note": "b"}},
        "spec": {
            "containers": [
                {
                    "name": name,
                    "image": "rayproject/ray:2.55.0",
                    "command": ["echo", "a"],
                    "env": [
                        {"name": "A", "value": "1"},
                        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    ],
                    "ports": [{"name": "client", "containerPort": 10001}],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                    "securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": False},
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                },
                {"name": "sidecar", "image": "busybox"},
            ],
            "affinity": {"podAntiAffinity": {"required": [{"namespaceSelector": {}}]}},
            "nodeSelector": {"pool": "ray"},
            "serviceAccountName": "ray",
            "volumes": [{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}],
        },
    }


def group(name: str) -> dict[str, Any]:
    return {
        "groupName": name,
        "replicas": 1,
        "minReplicas": 0,
        "maxReplicas": 5,
        "rayStartParams": {"num-cpus": "1"},
        "template": template("ray-worker"),
    }


def spec() -> dict[str, Any]:
    return {
        "rayVersion": "2.55.0",
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {"idleTimeoutSeconds": 60},
        "authOptions": {},
        "headGroupSpec": {
            "labels": {"ray.io/region": "a"},
            "headService": {"spec": {"ports": [{"port": 1, "name": "a"}]}},
            "template": template("ray-head"),
        },
        "workerGroupSpecs": [group("a"), group("b")],
    }


HASH = recreate_digest(spec())
NOT_COUNTED = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
SPELLINGS = {"cpu": ["1", 1, "1000m", 1.0], "memory": ["1Gi", "1024Mi", 1073741824]}
WRITTEN_OUT: list[tuple[str, str, Any]] = [
    ("spec", "restartPolicy", "Always"),
    ("spec", "hostNetwork", False),
    ("spec", "tolerations", [{"key": "a"}]),
    ("spec", "schedulingGates", [{"name": "a"}]),
    ("containers", "args", []),
    ("containers", "tty", False),
    ("ports", "protocol", "TCP"),
    ("secretKeyRef", "optional", False),
    ("workerGroupSpecs", "numOfHosts", 1),
    ("workerGroupSpecs", "numOfHosts", 0),
    ("workerGroupSpecs", "suspend", False),
    ("workerGroupSpecs", "priority", 0),
    ("workerGroupSpecs", "scaleStrategy", {"workersToDelete": ["w"]}),
    ("", "suspend", False),
    ("", "upgradeStrategy", {"type": "Recreate"}),
    ("", "managedBy", "ray.io/kuberay-operator"),
    ("authOptions", "mode", "token"),
]


def rewritten(value: Any, rng: Random, around: str = "") -> Any:
    """The same specification in other words."""
    if isinstance(value, list):
        items = [rewritten(item, rng, around) for item in value]
        return rng.sample(items, len(items)) if around == "workerGroupSpecs" else items
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for key in rng.sample(list(value), len(value)):
        if around == "limits":
            result[key] = rng.choice(SPELLINGS[key])
        elif around == "workerGroupSpecs" and key in NOT_COUNTED:
            result[key] = rng.choice([None, 0, 7])
        else:
            result[key] = rewritten(value[key], rng, key)
    if "containers" in value or around != "spec":  # the other `spec` is that of a service
        additions = [(key, item) for where, key, item in WRITTEN_OUT if where == around]
        for key, item in [("nothing", None), *additions]:
            if rng.random() < 0.5:
                result.setdefault(key, item)
    return result


@pytest.mark.slow
@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_same_in_other_words_has_the_same_hash(rng: Random):
    assert recreate_digest(rewritten(spec(), rng)) == HASH


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for position, item in enumerate(value):
            yield from leaves(item, (*path, position))
    else:
        yield path


COUNTED = [path for path in leaves(spec()) if path[-1] not in NOT_COUNTED]


def node(raw: Any, path: Path) -> Any:
    for part in path:
        raw = raw[part]
    return raw


@pytest.mark.parametrize("path", COUNTED, ids=lambda path: ".".join(map(str, path)))
def test_every_other_value_and_every_missing_one_has_another_hash(path: Path):
    changed, removed = spec(), spec()
    holder, last = node(changed, path[:-1]), path[-1]
    holder[last] = {
        str: lambda old: f"{old}x",
        bool: lambda old: not old,
        int: lambda old: old + 1,
        dict: lambda _: {"mode": "disabled", "matchLabels": {"a": "b"}},
    }[type(holder[last])](holder[last])
    assert recreate_digest(changed) != HASH
    del node(removed, path[:-1])[last]
    if last != "groupName":
        assert recreate_digest(removed) != HASH


@pytest.mark.parametrize(
    ("path", "addition"),
    [
        (("workerGroupSpecs",), group("c")),
        (("headGroupSpec", "template", "spec", "containers", 0, "env"), {"name": "C"}),
        (("workerGroupSpecs", 1, "template", "spec", "containers"), {"name": "c"}),
    ],
    ids=["group", "variable", "container"],
)
def test_one_more_in_a_list_has_another_hash(path: Path, addition: dict[str, Any]):
    changed = spec()
    node(changed, path).append(addition)
    assert recreate_digest(changed) != HASH


@pytest.mark.parametrize(
    "change",
    [
        {"suspend": True},
        {"gcsFaultToleranceOptions": {}},
        {"enableInTreeAutoscaling": False},
        {"autoscalerOptions": {"idleTimeoutSeconds": 61}},
    ],
    ids=str,
)
def test_what_a_cluster_is_asked_to_be_counts(change: dict[str, Any]):
    assert recreate_digest(spec() | change) != HASH


def test_the_order_of_variables_counts_if_one_refers_to_another():
    original, changed = spec(), spec()
    for each in (original, changed):
        env = each["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
        env[:] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
        if each is changed:
            env.reverse()
    assert recreate_digest(changed) == recreate_digest(original)
    for each in (original, changed):
        for entry in each["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]:
            if entry["name"] == "B":
                entry["value"] = "$(A)"
    assert recreate_digest(changed) != recreate_digest(original)


def defaults(node: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[Path, Any]]:
    """Every default of a schema with its path, 0 standing for the first item of a list."""
    if "default" in node:
        yield path, node["default"]
    for name, child in node.get("properties", {}).items():
        yield from defaults(child, (*path, name))
    if "items" in node:
        yield from defaults(node["items"], (*path, 0))


def nested(path: Path, value: Any) -> Any:
    """A specification with nothing but the value at the path, and what must be around it."""
    for part in reversed(path):
        value = [value] if part == 0 else {part: value}
    return {"headGroupSpec": {}} | value


def test_what_kuberays_schema_fills_in_makes_no_difference():
    filled_in = list(defaults(schema(kuberay("RayCluster"))["properties"]["spec"]))
    assert len(filled_in) > 50
    for path, value in filled_in:
        holder = nested(path[:-1], {})
        whole = copy.deepcopy(holder)
        node(whole, path[:-1])[path[-1]] = value
        for each in (holder, whole):
            for worker in each.get("workerGroupSpecs", ()):
                worker["groupName"] = "a"
        assert recreate_digest(whole) == recreate_digest(holder), path
