"""OpenAPI schemas of the built-in types, made from the table of fields.

They have no descriptions: the table has names, types, keys of lists and what is required.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from controller.devcluster.apiserver.fields.field_table import ANY, Field, table

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json

_SCALARS: dict[str, Json] = {
    **{any_: {"type": "object"} for any_ in ANY},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "double": {"type": "number", "format": "double"},
    "int-or-string": {"type": "string", "format": "int-or-string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "microtime": {"type": "string", "format": "date-time"},
    "time": {"type": "string", "format": "date-time"},
}
_HEAD: Json = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}


def kind_schema(kind: str) -> Json:
    """Return the schema of a kind."""
    schema = _struct(kind)
    return schema | {"properties": _HEAD | schema["properties"]}


@cache
def referred_schemas(kind: str) -> Json:
    """Return the schemas of all types below a kind, by name."""
    found: Json = {}
    waiting = [_innermost(field.type) for field in table()[kind].values()]
    while waiting:
        name = waiting.pop()
        if name in table() and name not in found:
            found[name] = _struct(name)
            waiting += [_innermost(field.type) for field in table()[name].values()]
    return found


def _innermost(type_: str) -> str:
    return type_.strip("[]{}")


def _struct(name: str) -> Json:
    fields = table()[name].values()
    schema: Json = {"type": "object", "properties": {one.name: _field(one) for one in fields}}
    if required := [one.name for one in fields if one.required]:
        schema["required"] = required
    return schema


def _field(field: Field) -> Json:
    schema = _type(field.type)
    if field.map_keys:
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = list(field.map_keys)
    if field.merge_key:
        schema["x-kubernetes-patch-merge-key"] = field.merge_key
        schema["x-kubernetes-patch-strategy"] = "merge"
    return schema


def _type(type_: str) -> dict[str, Any]:
    if type_.startswith("["):
        return {"type": "array", "items": _type(type_[1:-1])}
    if type_.startswith("{"):
        return {"type": "object", "additionalProperties": _type(type_[1:-1])}
    if type_ in table():
        return {"allOf": [{"$ref": f"#/components/schemas/{type_}"}]}
    return dict(_SCALARS.get(type_, {"type": "string"}))
