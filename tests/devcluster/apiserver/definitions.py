"""A CustomResourceDefinition with one property for each thing that schemas can say."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

INT_OR_STRING = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}

SPEC: Json = {
    "type": "object",
    "required": ["size"],
    "x-kubernetes-validations": [
        {"rule": "!(has(self.this) && has(self.that))", "message": "this or that, not both"}
    ],
    "properties": {
        "size": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 10},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "word": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "this": {"type": "string"},
        "that": {"type": "string"},
        "immutable": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
        },
        "choice": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self in ['x', 'y']"}],
        },
        "port": INT_OR_STRING,
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "maybe": {"type": "string", "nullable": True},
        "when": {"type": "string", "format": "date-time"},
        "flag": {"type": "boolean"},
        "list": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string"}},
        "set": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {"type": "string"},
        },
        "map": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "value": {"type": "integer", "default": 7},
                },
            },
        },
        "nested": {
            "type": "object",
            "default": {},
            "properties": {"inner": {"type": "string", "default": "deep"}},
        },
    },
}

SCHEMA: Json = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": SPEC,
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "conditions": {
                    "type": "array",
                    "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
        },
    },
}

COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {
        "name": "Ready",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
    },
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def definition(group: str, spec: Json | None = None) -> Json:
    """Things of a group: two served versions, a status subresource, printer columns."""
    schema = SCHEMA | {"properties": SCHEMA["properties"] | {"spec": spec or SPEC}}
    version: Json = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": COLUMNS,
    }
    older = version | {"name": "v1alpha1", "storage": False, "additionalPrinterColumns": []}
    return {
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": "things",
                "kind": "Thing",
                "shortNames": ["th"],
                "categories": ["all"],
            },
            "versions": [version, older],
        },
    }
