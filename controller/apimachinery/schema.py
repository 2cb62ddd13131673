"""A small vocabulary for structural OpenAPI schemas, so that a CRD reads like a table.

Every function returns plain data for `openAPIV3Schema`; the description always comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Schema = dict[str, Any]

_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def string(description: str, *, enum: Sequence[str] = (), **more: Any) -> Schema:
    """Return the schema of a string; `more` are further OpenAPI keywords."""
    schema: Schema = {"description": description, "type": "string", **more}
    if enum:
        schema["enum"] = list(enum)
    return schema


def boolean(description: str, **more: Any) -> Schema:
    """Return the schema of a boolean."""
    return {"description": description, "type": "boolean", **more}


def int32(description: str, **more: Any) -> Schema:
    """Return the schema of an integer of 32 bits."""
    return {"description": description, "type": "integer", "format": "int32", **more}


def int64(description: str, **more: Any) -> Schema:
    """Return the schema of an integer of 64 bits."""
    return {"description": description, "type": "integer", "format": "int64", **more}


def number(description: str, **more: Any) -> Schema:
    """Return the schema of a number, whole or not."""
    return {"description": description, "type": "number", **more}


def time(description: str, **more: Any) -> Schema:
    """Return the schema of a point in time, RFC 3339."""
    return {"description": description, "type": "string", "format": "date-time", **more}


def int_or_string(description: str) -> Schema:
    """Return the schema of an integer or a string, such as a port or its name."""
    return {
        "description": description,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    }


def int_or_percentage(description: str) -> Schema:
    """Return the schema of a number, or a percentage such as 25%."""
    return int_or_string(description) | {"pattern": "^[0-9]{1,9}%$"}


def quantity(description: str) -> Schema:
    """Return the schema of a quantity: `500m`, `1Gi`, `2`."""
    return {**int_or_string(description), "pattern": _QUANTITY}


def map_of(description: str, values: Schema) -> Schema:
    """Return the schema of a map from strings."""
    return {"description": description, "type": "object", "additionalProperties": values}


def strings(description: str) -> Schema:
    """Return the schema of a map from strings to strings."""
    return map_of(description, {"type": "string"})


def array(
    description: str, items: Schema, *, keys: Sequence[str] = (), atomic: bool = False
) -> Schema:
    """Return the schema of a list; `keys` give its elements identities, for server-side apply."""
    schema: Schema = {"description": description, "type": "array", "items": items}
    if keys:
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = list(keys)
    elif atomic:
        schema["x-kubernetes-list-type"] = "atomic"
    return schema


def words(description: str, *, atomic: bool = False) -> Schema:
    """Return the schema of a list of strings."""
    return array(description, {"type": "string"}, atomic=atomic)


def struct(
    description: str,
    properties: Mapping[str, Schema],
    *,
    required: Sequence[str] = (),
    atomic: bool = False,
) -> Schema:
    """Return the schema of an object with these fields and no others."""
    schema: Schema = {"description": description, "type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    if atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def anything(description: str) -> Schema:
    """Return the schema of an object whose fields are all kept, including unknown ones."""
    return {
        "description": description,
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }


def rule(expression: str, message: str) -> Schema:
    """Return a CEL rule for `x-kubernetes-validations`."""
    return {"rule": expression, "message": message}


def rules(*each: Schema) -> Schema:
    """Return the part of a schema that holds CEL rules."""
    return {"x-kubernetes-validations": list(each)}


# The parts of a CustomResourceDefinition around its schemas, as plain data.

Definition: TypeAlias = dict[str, Any]
Column: TypeAlias = tuple[str, str, str, int]
"""Name, type, path and priority of a column that `kubectl get` prints."""


def definition(
    group: str,
    kind: str,
    *versions: Definition,
    category: str = "all",
    short_names: Sequence[str] = (),
) -> Definition:
    """Return the definition of a namespaced kind."""
    singular = kind.lower()
    names: Definition = {
        "categories": [category],
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": f"{singular}s",
        "singular": singular,
    }
    if short_names:
        names["shortNames"] = list(short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": list(versions)},
    }


def served_version(
    name: str, schema: Schema, columns: Sequence[Column], *, is_stored: bool
) -> Definition:
    """Return a served version that has a status."""
    return {
        "name": name,
        "served": True,
        "storage": is_stored,
        **printed(columns),
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }


def printed(columns: Sequence[Column]) -> Definition:
    """Return the columns of a version; empty if it has none of its own."""
    if not columns:
        return {}
    return {"additionalPrinterColumns": [_column(*column) for column in columns]}


def _column(name: str, kind: str, path: str, priority: int) -> Definition:
    column: Definition = {"name": name, "type": kind, "jsonPath": path}
    return column | {"priority": priority} if priority else column
