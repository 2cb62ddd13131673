"""The common base of cached custom resources, whose fields stay plain data.

A field of a wrong type therefore does not break the cache: parsing the specification raises an
error with the field's path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, cast

import msgspec

from controller.apimachinery.problem import Problem
from controller.kube.objects import KubeObject

T = TypeVar("T")

FieldReader: TypeAlias = Callable[[Any], Any]
"""Returns a field's value as far as it is well-formed, else None."""

_FIELD_OF_ERROR: Final = re.compile(r" - at `\$\.(\w+)")
_TEXTS: Final = ("status", "reason", "message", "lastTransitionTime")
"""Fields of a condition besides its type."""


class CustomObject(KubeObject, frozen=True, gc=True, weakref=True):
    """A cached custom resource; kinds add their own fields, such as `spec`.

    Attributes:
        status: plain data; read it with `status_of`.
        undecodable: fields that could not be decoded, with the problems; empty if all could. The
            cache holds the rest of the object, so that it can be reported and deleted.
    """

    status: Any = msgspec.field(default_factory=dict[str, Any])
    undecodable: str = msgspec.field(default="", name="$undecodable")

    status_fields: ClassVar[Mapping[str, FieldReader]] = {}
    """Readers of the status fields that the operator uses; no schema guarantees their types."""


def undecodable_problem(obj: CustomObject) -> Problem | None:
    """Return the problem of an object with fields that could not be decoded; None if all could."""
    if not obj.undecodable:
        return None
    field, _, message = obj.undecodable.partition(": ")
    return Problem(field, f"{message}; correct that field")


def parse(data: Any, view: type[T]) -> T:
    """Convert plain data to a typed view, without nulls.

    Raises:
        msgspec.ValidationError: a field has the wrong type or is missing.
    """
    return msgspec.convert(without_nulls(data), view)


def parse_readable(data: Any, view: type[T]) -> T:
    """Convert plain data to a typed view, without nulls and without fields of a wrong type.

    The view must have a default for each field.
    """
    fields = dict(mapping(without_nulls(data)))
    while True:
        try:
            return msgspec.convert(fields, view)
        except msgspec.ValidationError as error:
            wrong = _FIELD_OF_ERROR.search(str(error))
            if wrong is None or fields.pop(wrong[1], None) is None:
                return msgspec.convert({}, view)


def status_of(obj: CustomObject) -> dict[str, Any]:
    """Return the present status. A malformed field counts as absent, so it is written again."""
    readers = obj.status_fields
    status: dict[str, Any] = {}
    for name, value in mapping(obj.status).items():
        reader = readers.get(name)
        read = value if reader is None else reader(value)
        if reader is None or read is not None:
            status[name] = read
    return status


def conditions_of(obj: CustomObject) -> list[dict[str, Any]]:
    """Return the present conditions that have a type."""
    return read_conditions(mapping(obj.status).get("conditions")) or []


def unreadable_conditions(obj: CustomObject) -> str:
    """Return the field that makes the conditions unreadable, and why; empty if none does.

    Unreadable conditions are not absent: code that deletes objects which are not ready must
    distinguish them.
    """
    status: Any = obj.status
    if status is not None and not isinstance(status, dict):
        return "status: it is no object"
    found = mapping(status).get("conditions")
    if found is None:
        return ""
    if not isinstance(found, list):
        return "status.conditions: it is no list"
    for position, each in enumerate(cast("list[Any]", found)):
        field = f"status.conditions[{position}]"
        if not isinstance(mapping(each).get("type"), str):
            return f"{field}: it has no type"
        if mapping(each).get("status") not in ("True", "False", "Unknown"):
            return f"{field}.status: it is not True, False or Unknown"
    return ""


def only(kind: type) -> FieldReader:
    """Return a reader of values of this type; booleans do not count as integers."""

    def read(value: Any) -> Any:
        fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        return value if fits else None

    return read


def read_conditions(value: Any) -> list[dict[str, Any]] | None:
    """Return the conditions that have a type; None if the value is not a list.

    A member that should be text and is not counts as absent.
    """
    if not isinstance(value, list):
        return None
    items = cast("list[Any]", value)
    return [_with_texts(each) for each in map(mapping, items) if isinstance(each.get("type"), str)]


def _with_texts(condition: dict[str, Any]) -> dict[str, Any]:
    for name in _TEXTS:  # a loop, as each plan reads the conditions twenty times
        if not isinstance(condition.get(name, ""), str):
            return {
                field: value
                for field, value in condition.items()
                if field not in _TEXTS or isinstance(value, str)
            }
    return condition


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is a mapping, else an empty mapping."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def mappings(value: Any) -> list[dict[str, Any]]:
    """Return the mappings in a list; other items, and any other value, count as absent."""
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", each) for each in items if isinstance(each, dict)]


def dig(value: Any, *path: str | int) -> Any:
    """Return the value at a path in plain data of any shape; None if there is none."""
    for part in path:
        if isinstance(part, str):
            value = mapping(value).get(part)
        else:
            items = cast("list[Any]", value) if isinstance(value, list) else []
            value = items[part] if part < len(items) else None
    return value


def without_nulls(value: Any) -> Any:
    """Return plain data without nulls, which mean absent in Kubernetes."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: without_nulls(item) for key, item in items if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in cast("list[Any]", value)]
    return value
