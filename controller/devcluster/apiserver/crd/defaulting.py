"""Fills in the defaults of a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from controller.devcluster.apiserver.crd.schema import Schema
    from controller.devcluster.apiserver.jsondata import Json


def fill_defaults(schema: Schema, value: Any) -> None:
    """Fill in defaults below a value, in place; nulls count as missing where not allowed."""
    if isinstance(value, dict):
        _fill_map(schema, cast("Json", value))
    elif isinstance(value, list) and schema.items:
        for item in cast("list[Any]", value):
            fill_defaults(schema.items, item)


def _fill_map(schema: Schema, value: Json) -> None:
    for name, item in list(value.items()):
        node = schema.field(name)
        if node is None:
            continue
        if item is None and not node.nullable:
            del value[name]
        else:
            fill_defaults(node, item)
    for name, node, encoded in schema.defaulted:
        if name not in value:
            value[name] = msgspec.json.decode(encoded)
            fill_defaults(node, value[name])
