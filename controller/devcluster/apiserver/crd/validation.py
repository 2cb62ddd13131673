"""Validates custom resources against their schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from controller.devcluster.apiserver.crd.rules import MISSING, check_rules, join
from controller.devcluster.apiserver.crd.schema import ROOT_PARTS
from controller.devcluster.apiserver.protocol.status import StatusCause, duplicate, required

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.devcluster.apiserver.crd.schema import Schema
    from controller.devcluster.apiserver.jsondata import Json

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
    """Return all problems of an object, apart from kind and metadata.

    Args:
        schema: the root of its schema.
        object_: the object, pruned and with defaults.
        old: its old version in an update: unchanged parts are not judged again, and transition
            rules compare with it.
        found: earlier problems, which come first.
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
