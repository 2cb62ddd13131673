"""Structural schemas of custom resources, compiled once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from controller.devcluster.apiserver.crd.cel import Rule, RuleError, compile_rule
from controller.devcluster.apiserver.crd.limits import CHECKED_FORMATS, SchemaLimits
from controller.devcluster.apiserver.jsondata import Json, child, entries
from controller.devcluster.apiserver.protocol.status import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNSUPPORTED = ("oneOf", "not", "multipleOf", "uniqueItems")
ROOT_PARTS = ("apiVersion", "kind", "metadata")
"""Fields of an object that its schema does not judge."""


class SchemaError(ValueError):
    """The schema uses something that this server would have to ignore."""


def compile_schema(source: Json) -> Schema:
    """Compile a schema, or return it if it was compiled recently.

    Raises:
        SchemaError: it uses something unsupported.
    """
    return _compile(msgspec.json.encode(source))


@lru_cache(maxsize=32)
def _compile(encoded: bytes) -> Schema:
    return Schema(msgspec.json.decode(encoded))


class Schema:
    """One node of a structural schema.

    Attributes:
        limits: limits of single values.
        nullable: whether null is a value.
        default_value: the default, encoded; None if there is none.
        properties: nodes of known fields.
        additional: node of all other fields, None if they are unknown.
        preserve: whether unknown fields are kept.
        items: node of list items.
        required: names of required fields.
        is_atomic_map: whether an apply replaces a map as a whole.
        list_type: `map`, `set`, `atomic` or empty.
        list_keys: fields that identify an item of a map list.
        rules: CEL rules about this node.
        has_rules: whether there are any here or below.
        defaulted: fields with a default: name, node, encoded default.
    """

    __slots__ = (
        "additional",
        "default_value",
        "defaulted",
        "has_rules",
        "is_atomic_map",
        "items",
        "limits",
        "list_keys",
        "list_type",
        "nullable",
        "preserve",
        "properties",
        "required",
        "rules",
    )

    def __init__(self, source: Json, path: str = "") -> None:
        """Compile a schema and everything below it.

        Raises:
            SchemaError: it uses something unsupported.
        """
        _refuse_unsupported(source, path)
        self.limits = SchemaLimits.of(source)
        self.nullable = bool(source.get("nullable"))
        self.default_value = msgspec.json.encode(source["default"]) if "default" in source else None
        self.properties = {
            name: Schema(node, f"{path}.{name}".lstrip("."))
            for name, node in child(source, "properties").items()
        }
        additional = source.get("additionalProperties")
        self.additional = (
            Schema(cast("Json", additional), f"{path}.*") if isinstance(additional, dict) else None
        )
        preserve = source.get("x-kubernetes-preserve-unknown-fields")
        self.preserve = bool(preserve) or additional is True
        items = source.get("items")
        self.items = Schema(items, f"{path}[]") if items else None
        self.required: list[str] = entries(source, "required")
        self.is_atomic_map = source.get("x-kubernetes-map-type") == "atomic"
        self.list_type: str = source.get("x-kubernetes-list-type", "")
        self.list_keys: list[str] = entries(source, "x-kubernetes-list-map-keys")
        self.rules = _compile_rules(source, path)
        self.has_rules = bool(self.rules) or any(node.has_rules for node in self._children())
        if source.get("x-kubernetes-embedded-resource"):
            self._preserve_embedded()
        self.defaulted = [
            (name, node, node.default_value)
            for name, node in self.properties.items()
            if node.default_value is not None
        ]

    def _children(self) -> Iterator[Schema]:
        yield from self.properties.values()
        if self.additional:
            yield self.additional
        if self.items:
            yield self.items

    def _preserve_embedded(self) -> None:
        """Give an embedded object a kind and metadata of its own."""
        for name in ROOT_PARTS:
            self.properties.setdefault(name, Schema({"x-kubernetes-preserve-unknown-fields": True}))

    @property
    def item_keys(self) -> tuple[str, ...] | None:
        """The keys of items: nothing for sets, None for lists replaced as a whole."""
        if self.list_type == "map":
            return tuple(self.list_keys)
        return () if self.list_type == "set" else None

    def field(self, name: str) -> Schema | None:
        """Return the schema below a field, None if there is none."""
        return self.properties.get(name, self.additional)

    def key_of(self, item: Any) -> str | None:
        """Return the key of an item of a set or map list; None for other lists."""
        if self.list_type == "set":
            return shown(item)
        if self.list_type == "map" and isinstance(item, dict):
            return shown(self.shown_key(item))
        return None

    def shown_key(self, item: Any) -> Any:
        """Return the key of an item of a set or map list, as errors quote it."""
        if self.list_type == "set":
            return item
        entry = cast("Json", item)
        return {key: entry[key] for key in self.list_keys if key in entry}

    def by_key(self, old: Any) -> dict[str, Any]:
        """Return the items of a set or map list by their keys."""
        if not isinstance(old, list) or not self.list_type:
            return {}
        keyed = ((self.key_of(item), item) for item in cast("list[Any]", old))
        return {key: item for key, item in keyed if key is not None}


def _refuse_unsupported(source: Json, path: str) -> None:
    """Refuse what would be ignored, apart from the usual `x-kubernetes-int-or-string`."""
    for word in _UNSUPPORTED:
        if word in source:
            raise SchemaError(f"{path}: {word} is not supported")
    if not source.get("x-kubernetes-int-or-string"):
        for word in ("anyOf", "allOf"):
            if word in source:
                raise SchemaError(f"{path}: {word} is not supported")
    if source.get("format", "") not in CHECKED_FORMATS:
        raise SchemaError(f"{path}: format {source['format']} is not supported")


def _compile_rules(source: Json, path: str) -> list[Rule]:
    try:
        return [compile_rule(rule) for rule in source.get("x-kubernetes-validations") or ()]
    except RuleError as error:
        raise SchemaError(f"{path}: {error}") from error
