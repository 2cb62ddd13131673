"""Behaviour of custom resources by their schema: defaults, pruning, validation and merging."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast

import msgspec

from devcluster.apiserver.builtin_types import decode_metadata
from devcluster.apiserver.crd.cel import EvaluationError, Rule
from devcluster.apiserver.crd.schema import ROOT_PARTS, Schema, compile_schema, json_type
from devcluster.apiserver.managed_fields import Structure, TypedStructure
from devcluster.apiserver.objects import STANDARD_FINALIZERS, Json, entries
from devcluster.apiserver.resources import ScalePaths, Strategy
from devcluster.apiserver.status import (
    StatusCause,
    duplicate,
    invalid_value,
    required,
    shown,
)


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


MISSING: Final[Any] = object()
"""Stands for the old version of a new value."""


def join(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name


def check_rules(schema: Schema, value: Any, old: Any, path: str, causes: list[StatusCause]) -> None:
    """Append the rules that do not hold for a value and its parts."""
    if not schema.has_rules or value is None or (old is not MISSING and old == value):
        return
    _check_own_rules(schema, value, old, path, causes)
    if isinstance(value, dict):
        before = cast("Json", old) if isinstance(old, dict) else {}
        for name, item in cast("Json", value).items():
            node = schema.field(name)
            if node is not None:  # that of metadata has rules for the name alone
                check_rules(node, item, before.get(name, MISSING), join(path, name), causes)
    elif isinstance(value, list) and schema.items:
        known = schema.by_key(old)
        for index, item in enumerate(cast("list[Any]", value)):
            before = known.get(schema.key_of(item) or "", MISSING)
            check_rules(schema.items, item, before, f"{path}[{index}]", causes)


def _check_own_rules(
    schema: Schema, value: Any, old: Any, path: str, causes: list[StatusCause]
) -> None:
    for rule in schema.rules:
        if rule.is_transition and old is MISSING:
            continue
        try:
            holds = rule.holds(value, old)
        except EvaluationError as error:
            detail = f"{error} evaluating rule: {rule.message}"
            causes.append(invalid_value(path, json_type(value), detail))
            continue
        if not holds:
            causes.append(_broken(rule, value, path))


def _broken(rule: Rule, value: Any, path: str) -> StatusCause:
    """Return the cause for a rule that does not hold; structures are not quoted."""
    quoted = "" if isinstance(value, (dict, list)) else f"{shown(value)}: "
    return StatusCause(rule.reason, path, f"Invalid value: {quoted}{rule.message}")


_HARMLESS = frozenset({"FieldValueInvalid", "FieldValueDuplicate"})
"""Errors after which rules can still be checked."""
_RULES_UNCHECKED = StatusCause(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


def validate(
    schema: Schema, object_: Json, old: Json | None, found: Iterable[StatusCause] = ()
) -> list[StatusCause]:
    """Return what was `found`, and all problems of an object apart from kind and metadata.

    Unchanged parts of `old` are not judged again, and transition rules compare with it.
    """
    causes = list(found)
    before: Any = MISSING if old is None else old
    _validate_map(schema, object_, before, "", causes)
    if not schema.has_rules:
        return causes
    if all(cause.reason in _HARMLESS for cause in causes):
        check_rules(schema, object_, before, "", causes)
    else:
        causes.append(_RULES_UNCHECKED)
    return causes


def _validate(schema: Schema, value: Any, old: Any, path: str, causes: list[StatusCause]) -> None:
    """Append all problems of a value; `old` is its old version, if there is one."""
    if old is not MISSING and old == value:
        return
    if value is None and schema.nullable:
        return
    found, fits = schema.limits.check(value, path)
    causes += found
    if not fits:
        return
    if isinstance(value, dict):
        _validate_map(schema, cast("Json", value), old, path, causes)
    elif isinstance(value, list):
        _validate_list(schema, cast("list[Any]", value), old, path, causes)


def _validate_map(
    schema: Schema, value: Json, old: Any, path: str, causes: list[StatusCause]
) -> None:
    before: Json = cast("Json", old) if isinstance(old, dict) else {}
    causes += [required(join(path, name)) for name in schema.required if name not in value]
    for name, item in value.items():
        if not path and name in ROOT_PARTS:
            continue
        node = schema.field(name)
        if node is not None:
            _validate(node, item, before.get(name, MISSING), join(path, name), causes)


def _validate_list(
    schema: Schema, value: list[Any], old: Any, path: str, causes: list[StatusCause]
) -> None:
    before = schema.by_key(old)
    seen: set[str] = set()
    for index, item in enumerate(value):
        place = f"{path}[{index}]"
        key = schema.key_of(item)
        if key is not None:
            if key in seen:
                causes.append(duplicate(place, schema.shown_key(item)))
            seen.add(key)
        if schema.items:
            known = MISSING if key is None else before.get(key, MISSING)
            _validate(schema.items, item, known, place, causes)


class SchemaStructure(Structure, frozen=True):
    """A value of a custom resource with a schema."""

    schema: Schema

    def field(self, name: str) -> Structure:
        """Return the structure below a field."""
        return _structure(self.schema.field(name))

    def item(self) -> Structure:
        """Return the structure of list items."""
        return _structure(self.schema.items)


def _structure(schema: Schema | None) -> Structure:
    if schema is None:
        return Structure()
    return SchemaStructure(schema, list_keys=schema.item_keys, is_atomic=schema.is_atomic_map)


class ObjectStructure(Structure, frozen=True):
    """A whole object: its metadata is typed, the rest follows its kind."""

    rest: Structure

    def field(self, name: str) -> Structure:
        """Return the structure below a field."""
        return TypedStructure("ObjectMeta") if name == "metadata" else self.rest.field(name)


_FORMAT = re.compile(r'"number"|of type date-time')
"""Matches errors about the form of a value, not about its type."""


class CustomStrategy(Strategy):
    """Objects of one version of a CustomResourceDefinition."""

    counts_generations = True
    unconditional_update = False
    status_keeps_metadata = True
    standard_finalizers = False
    typed = False

    def __init__(self, source: Json, *, has_status: bool, scale: ScalePaths | None = None) -> None:
        self._source = source
        self._scale = scale
        self._schema = compile_schema(source)
        self.has_status = has_status

    def openapi_schema(self) -> Json:
        """Return the schema of the definition."""
        return self._source

    def decode(self, kind: str, object_: Json) -> list[str]:
        """Prune fields that the schema lacks; metadata is handled as in built-in kinds."""
        return sorted(prune(self._schema, object_) + decode_metadata(kind, object_))

    def apply_errors(self, kind: str, object_: Json) -> list[str]:
        """Include values of the wrong type, which decoding does not find here."""
        problems = super().apply_errors(kind, object_)
        return problems + [
            f".{cause.field}: {cause.message}"
            for cause in validate(self._schema, object_, None)
            if cause.reason == "FieldValueTypeInvalid" and not _FORMAT.search(cause.message)
        ]

    def structure(self, kind: str) -> Structure:  # noqa: ARG002 - the schema says it all
        """Return the structure that the schema's list types define."""
        return ObjectStructure(_structure(self._schema))

    def default(self, object_: Json) -> None:
        """Fill in the defaults of the schema."""
        fill_defaults(self._schema, object_)

    def warnings(self, object_: Json, old: Json | None) -> list[str]:
        """Warn of finalizers without a domain."""
        known = entries(old["metadata"], "finalizers") if old else []
        return [
            f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name to avoid '
            "accidental conflicts with other finalizer writers"
            for name in entries(object_["metadata"], "finalizers")
            if "/" not in name and name not in known and name not in STANDARD_FINALIZERS
        ]

    def validate(self, object_: Json, old: Json | None) -> list[StatusCause]:
        """Validate metadata, schema, and the number of replicas."""
        causes = validate(self._schema, object_, old, super().validate(object_, old))
        return causes + (self._scale.problems(object_) if self._scale is not None else [])
