"""The typed reading of the specification, and how many pods it asks for."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from controller.apimachinery.custom_object import conditions_of
from controller.kube.objects import View
from controller.ray.api.definitions import SCHEMAS
from controller.ray.api.names import (
    checked_label,
    checked_name,
    checked_route_name,
    is_managed_elsewhere,
)
from controller.ray.api.ray_options import is_at_least, parse_ray_version
from controller.ray.api.raycluster import (
    LARGEST_INT32,
    ClusterSpec,
    RayCluster,
    WorkerGroup,
    parse_spec,
)
from tests.ray.cluster.support import cluster, manifest


def group(**fields: Any) -> WorkerGroup:
    return msgspec.convert({"groupName": "a", "template": {}} | fields, WorkerGroup)


@pytest.mark.parametrize(
    ("fields", "pods"),
    [
        ({"replicas": 3}, 3),
        ({}, 0),
        ({"minReplicas": 2}, 2),
        ({"replicas": 1, "minReplicas": 2}, 2),
        ({"replicas": 9, "maxReplicas": 5}, 5),
        ({"replicas": 2, "numOfHosts": 4}, 8),
        ({"replicas": 9, "maxReplicas": 5, "numOfHosts": 2}, 10),
        ({"replicas": 3, "numOfHosts": 0}, 3),
        ({"replicas": 3, "numOfHosts": -1}, 3),
        ({"replicas": 3, "suspend": True}, 0),
        ({"replicas": 3, "suspend": False}, 3),
        ({"replicas": LARGEST_INT32, "numOfHosts": 3}, 3 * LARGEST_INT32),
    ],
)
def test_desired_pods_are_clamped_replicas_times_hosts(fields: dict[str, Any], pods: int):
    assert group(**fields).desired_pods == pods


def structs(
    kind: Any, schema: dict[str, Any], path: str
) -> Iterator[tuple[str, set[str], set[str]]]:
    """Every Struct below `kind` with its field names and those of the schema at its place."""
    for argument in typing.get_args(kind):
        yield from structs(argument, schema.get("items", schema), path)
    if isinstance(kind, type) and issubclass(kind, View):
        properties = schema.get("properties", {})
        fields = msgspec.structs.fields(kind)
        yield path, {field.encode_name for field in fields}, set(properties)
        for field in fields:
            child = properties.get(field.encode_name, {})
            yield from structs(field.type, child, f"{path}.{field.encode_name}")


def test_every_typed_field_exists_in_the_schema_under_the_same_name():
    found = list(structs(ClusterSpec, SCHEMAS.schema("cluster_spec"), "spec"))
    assert len(found) > 10
    assert [(path, names - known) for path, names, known in found if names - known] == []


def test_nulls_mean_absent():
    raw = manifest()
    raw["spec"] |= {"suspend": None, "autoscalerOptions": None}
    raw["spec"]["workerGroupSpecs"][0] |= {"scaleStrategy": None, "rayStartParams": {"a": None}}
    spec = parse_spec(cluster(raw))
    assert spec.autoscaler_options is None
    assert spec.worker_group_specs[0].ray_start_params == {}


def test_a_cached_object_may_hold_anything_where_specification_and_status_should_be():
    stored = msgspec.json.decode(
        b'{"metadata": {"name": "a"}, "spec": 1, "status": [1]}', type=RayCluster
    )
    assert conditions_of(stored) == []
    assert not is_managed_elsewhere(stored)
    odd = msgspec.convert({"status": {"conditions": [1, {"type": "A"}]}}, RayCluster)
    assert conditions_of(odd) == [{"type": "A"}]


@pytest.mark.parametrize(
    ("manager", "elsewhere"),
    [
        (None, False),
        ("", False),
        ("ray.io/kuberay-operator", False),
        ("kueue.x-k8s.io/multikueue", True),
    ],
)
def test_another_manager_is_another_controllers_business(manager: str | None, elsewhere: bool):
    assert is_managed_elsewhere(cluster(managedBy=manager)) is elsewhere


def test_a_checked_name_keeps_the_tail_and_never_begins_with_a_digit_or_punctuation():
    assert checked_name("a" * 10 + "b" * 50) == "b" * 50
    assert checked_name("a" * 3 + "7" + "b" * 49) == "r" + "b" * 49
    assert checked_name("-a") == "ra"
    assert checked_name("") == ""


def test_the_name_of_a_route_leaves_room_for_its_namespace():
    assert checked_route_name("a" * 60, "n") == "a" * 50
    assert checked_route_name("a" * 60, "n" * 40) == "a" * 11
    assert checked_route_name("abc", "n" * 63) == "a", "no room is no reason to have no name"


def test_a_checked_label_keeps_the_tail_and_may_begin_with_a_digit():
    assert checked_label("a-" + "b" * 62) == "r" + "b" * 62
    assert checked_label("7a") == "7a"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.52.0", (2, 52, 0)), ("v2.9", (2, 9, 0)), ("2.53.0rc1", (2, 53, 0)),
        ("nightly", None), ("", None), ("2", None),
    ],
)  # fmt: skip
def test_ray_versions(text: str, version: tuple[int, int, int] | None):
    assert parse_ray_version(text) == version


def test_versions_are_compared_as_numbers_and_an_unreadable_one_is_never_new_enough():
    assert is_at_least("2.100.0", (2, 53, 0))
    assert not is_at_least("2.9.0", (2, 53, 0))
    assert not is_at_least("nightly", (2, 0, 0))
