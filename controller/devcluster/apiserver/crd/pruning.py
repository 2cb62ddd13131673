"""Drops the fields of custom resources that their schema lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from controller.devcluster.apiserver.crd.schema import ROOT_PARTS

if TYPE_CHECKING:
    from controller.devcluster.apiserver.crd.schema import Schema
    from controller.devcluster.apiserver.jsondata import Json


def prune(schema: Schema, object_: Json) -> list[str]:
    """Drop unknown fields of an object in place, except in kind and metadata.

    Returns:
        Paths of the dropped fields.
    """
    unknown: list[str] = []
    for name in list(object_):
        if name in ROOT_PARTS:
            continue
        node = schema.properties.get(name)
        if node is not None:
            _prune(node, object_[name], name, unknown)
        elif not schema.preserve:
            unknown.append(name)
            del object_[name]
    return unknown


def _prune(schema: Schema, value: Any, path: str, unknown: list[str]) -> None:
    """Drop unknown fields below a value in place and note their paths."""
    if isinstance(value, list) and schema.items:
        for index, item in enumerate(cast("list[Any]", value)):
            _prune(schema.items, item, f"{path}[{index}]", unknown)
    elif isinstance(value, dict):
        _prune_map(schema, cast("Json", value), path, unknown)


def _prune_map(schema: Schema, value: Json, path: str, unknown: list[str]) -> None:
    for name in list(value):
        node = schema.field(name)
        if node is not None:
            _prune(node, value[name], f"{path}.{name}", unknown)
        elif not schema.preserve:
            unknown.append(f"{path}.{name}")
            del value[name]
