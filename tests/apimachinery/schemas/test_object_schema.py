"""Published schemas: which fields objects lose, and what was probably meant."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.apimachinery.object_schema import (
    GroupVersionKind,
    ObjectSchema,
    parse_schemas,
    unknown_fields,
)

THING = GroupVersionKind("test.dev", "v1", "Thing")


def schema(properties: dict[str, Any], **named: Any) -> ObjectSchema:
    kinds = [{"group": "test.dev", "version": "v1", "kind": "Thing"}]
    thing = {"properties": properties, "x-kubernetes-group-version-kind": kinds}
    document = {"openapi": "3.0.0", "components": {"schemas": {"v1.Thing": thing, **named}}}
    found = parse_schemas(msgspec.json.encode(document), {THING}).get(THING)
    assert found is not None
    return found


GROUPS = schema(
    {
        "spec": {
            "properties": {
                "groups": {
                    "type": "array",
                    "items": {"properties": {"name": {"type": "string"}, "hosts": {}}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            }
        }
    }
)


@pytest.mark.parametrize(
    ("path", "lacks"),
    [
        ("spec.groups", False),
        ("spec.groups.hosts", False),
        ("spec.groups.replicas", True),
        ("spec.suspend", True),
        ("status.state", True),
        ("spec.free.anything.below", False),
        ("spec.labels.any", False),
    ],
)
def test_which_fields_objects_lose(path: str, lacks: bool):
    assert GROUPS.lacks(path) is lacks


def test_a_document_without_the_kind_has_no_schema():
    document = msgspec.json.encode({"components": {"schemas": {"v1.Other": {}}}})
    assert parse_schemas(document, {THING}) == {}


CONTAINER = {
    "properties": {
        "image": {"type": "string"},
        "env": {"type": "array", "items": {"$ref": "#/components/schemas/EnvVar"}},
        "resources": {"properties": {"limits": {"additionalProperties": {"type": "string"}}}},
    }
}
POD = schema(
    {
        "spec": {"allOf": [{"$ref": "#/components/schemas/PodSpec"}], "default": {}},
        "fields": {"type": "object"},
    },
    PodSpec={
        "properties": {
            "nodeSelector": {"additionalProperties": {"type": "string"}},
            "containers": {
                "type": "array",
                "items": {"allOf": [{"$ref": "#/components/schemas/Container"}]},
            },
        }
    },
    Container=CONTAINER,
    EnvVar={"properties": {"name": {}, "value": {}}},
)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        pytest.param({"spec": {"nodeSelector": {"disk": "ssd"}}}, [], id="known"),
        pytest.param(
            {"spec": {"nodeSelektor": {"disk": "ssd"}}},
            ["pod.spec.nodeSelektor (did you mean nodeSelector?)"],
            id="near",
        ),
        pytest.param({"spec": {"zzz": 1}}, ["pod.spec.zzz"], id="far"),
        pytest.param(
            {"spec": {"containers": [{}, {"env": [{"nam": "A"}], "resources": {"limit": {}}}]}},
            [
                "pod.spec.containers[1].env[0].nam (did you mean name?)",
                "pod.spec.containers[1].resources.limit (did you mean limits?)",
            ],
            id="in lists",
        ),
        pytest.param({"fields": {"f:spec": {}}}, [], id="a type without fields holds anything"),
        pytest.param({"spec": {"zzz": None}}, [], id="null means absent"),
        pytest.param({"spec": "of another type"}, [], id="not an object"),
    ],
)
def test_unknown_fields_have_their_path_and_the_nearest_name(value: Any, found: list[str]):
    assert [str(each) for each in unknown_fields(value, POD, "pod")] == found
