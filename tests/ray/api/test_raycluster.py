"""The typed reading of the specification, and how many pods it asks for."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from controller.apimachinery.custom_object import conditions_of
from controller.kube.objects import View
from controller.ray.api.definitions.raycluster import cluster_spec
from controller.ray.api.names import is_managed_elsewhere
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
    found = list(structs(ClusterSpec, cluster_spec(), "spec"))
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
