"""Structural schemas of custom resources, compiled once, with their limits on single values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

import msgspec

from devcluster.apiserver.crd.cel import Rule, RuleError, compile_rule
from devcluster.apiserver.objects import Json, child, entries
from devcluster.apiserver.status import (
    StatusCause,
    check_choice,
    invalid_type,
    invalid_value,
    shown,
)

CHECKED_FORMATS = frozenset({"", "date-time", "double", "float", "int32", "int64", "password"})
INT_OR_STRING = "int-or-string"
_BITS = {"int32": 31, "int64": 63}
_FITTING = {"number": {"number", "integer"}}
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


class SchemaLimits(msgspec.Struct, frozen=True):
    """The limits of one node of a schema; None where there is none.

    Attributes:
        type: `object`, `array`, `string` and so on, `int-or-string`, or empty for any.
        format: `date-time`, `int32` or `int64`; others are not checked.
        above, below: whether the bounds themselves are excluded.
    """

    type: str
    format: str
    enum: list[Any]
    minimum: float | None
    maximum: float | None
    above: bool
    below: bool
    min_length: int | None
    max_length: int | None
    pattern: str
    min_items: int | None
    max_items: int | None
    min_properties: int | None
    max_properties: int | None

    @classmethod
    def of(cls, source: Json) -> SchemaLimits:
        """Return the limits of a node of a schema."""
        any_number_or_text = source.get("x-kubernetes-int-or-string")
        return cls(
            type=INT_OR_STRING if any_number_or_text else source.get("type", ""),
            format=source.get("format", ""),
            enum=entries(source, "enum"),
            minimum=source.get("minimum"),
            maximum=source.get("maximum"),
            above=bool(source.get("exclusiveMinimum")),
            below=bool(source.get("exclusiveMaximum")),
            min_length=source.get("minLength"),
            max_length=source.get("maxLength"),
            pattern=source.get("pattern", ""),
            min_items=source.get("minItems"),
            max_items=source.get("maxItems"),
            min_properties=source.get("minProperties"),
            max_properties=source.get("maxProperties"),
        )

    def check(self, value: Any, path: str) -> tuple[list[StatusCause], bool]:
        """Return the causes for a value itself, and whether its type is right."""
        expected = self._expected_instead(value)
        if expected:
            return [_wrong_type(path, value, expected), *self._check_choice(value, path)], False
        causes = self._check_choice(value, path)
        if isinstance(value, str):
            causes += self._check_text(value, path)
        elif isinstance(value, list):
            causes += _check_count(self.min_items, self.max_items, value, path, "items")
        elif isinstance(value, dict):
            causes += _check_count(
                self.min_properties, self.max_properties, value, path, "properties"
            )
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            causes += self._check_number(value, path)
        return causes, True

    def _check_choice(self, value: Any, path: str) -> list[StatusCause]:
        return check_choice(path, value, self.enum) if self.enum else []

    def _expected_instead(self, value: Any) -> str:
        if self.type == INT_OR_STRING:
            fits = isinstance(value, (int, str)) and not isinstance(value, bool)
            return "" if fits else "integer,string"
        if not self.type:
            return ""
        return "" if json_type(value) in _FITTING.get(self.type, {self.type}) else self.type

    def _check_text(self, value: str, path: str) -> list[StatusCause]:
        if self.max_length is not None and len(value) > self.max_length:
            message = f"Too long: may not be more than {self.max_length} bytes"
            return [StatusCause("FieldValueTooLong", path, message)]
        if self.min_length is not None and len(value) < self.min_length:
            detail = f"{path} in body should be at least {self.min_length} chars long"
            return [invalid_value(path, value, detail)]
        if self.pattern and not _pattern(self.pattern).search(value):
            return [invalid_value(path, value, f"{path} in body should match '{self.pattern}'")]
        if self.format == "date-time" and not _DATE_TIME.fullmatch(value):
            detail = f"{path} in body must be of type date-time: {shown(value)}"
            return [invalid_type(path, value, detail)]
        return []

    def _check_number(self, value: float, path: str) -> list[StatusCause]:
        details: list[str] = []
        low, high = self.minimum, self.maximum
        if low is not None and (value < low or (self.above and value == low)):
            words = "greater than" if self.above else "greater than or equal to"
            details.append(f"{path} in body should be {words} {low}")
        if high is not None and (value > high or (self.below and value == high)):
            words = "less than" if self.below else "less than or equal to"
            details.append(f"{path} in body should be {words} {high}")
        bits = _BITS.get(self.format)
        if bits and not -(2**bits) <= value < 2**bits:
            details.append(f"{path} in body must be of type {self.format}: {shown(shown(value))}")
        return [invalid_value(path, value, detail) for detail in details]


def _check_count(
    fewest: int | None, most: int | None, value: Any, path: str, what: str
) -> list[StatusCause]:
    if fewest is not None and len(value) < fewest:
        detail = f"{path} in body should have at least {fewest} {what}"
        return [invalid_value(path, len(value), detail)]
    if most is not None and len(value) > most:
        message = f"Too many: {len(value)}: must have at most {most} items"
        return [StatusCause("FieldValueTooMany", path, message)]
    return []


def json_type(value: Any) -> str:
    """Return the name of a value's type in schemas."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    if value is None:
        return "null"
    return {str: "string", dict: "object", list: "array"}[type(value)]


def _wrong_type(path: str, value: Any, expected: str) -> StatusCause:
    found = shown(json_type(value))
    detail = f"{path} in body must be of type {expected}: {found}"
    return StatusCause("FieldValueTypeInvalid", path, f"Invalid value: {found}: {detail}")


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
        default_value: the default, encoded; None if there is none.
        additional: node of all other fields, None if they are unknown.
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
