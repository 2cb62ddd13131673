"""What custom resources have in common as cached objects: their fields stay plain data.

A field of a wrong type then costs only its own object: it fails when the specification is parsed,
which says where, and not in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import msgspec

from controller.kube.objects import KubeObject

T = TypeVar("T")

FieldReader: TypeAlias = Callable[[Any], Any]
"""Returns a field's value as far as it makes sense, None if it does not."""


class CustomObject(KubeObject, frozen=True, gc=True, weakref=True):
    """A custom resource as it is cached; a kind adds its own fields, `spec` among them.

    Attributes:
        status: plain data; `status_of` reads it.
    """

    status: Any = msgspec.field(default_factory=dict[str, Any])

    status_fields: ClassVar[Mapping[str, FieldReader]] = {}
    """How each status field that is read again is read; no schema vouches for its type."""


def parse(data: Any, view: type[T]) -> T:
    """Plain data as a typed view, nulls dropped.

    Raises:
        msgspec.ValidationError: a field has the wrong type or is missing.
    """
    return msgspec.convert(without_nulls(data), view)


def status_of(obj: CustomObject) -> dict[str, Any]:
    """The present status. A field that makes no sense counts as absent, so it is written again."""
    readers = obj.status_fields
    status: dict[str, Any] = {}
    for name, value in mapping(obj.status).items():
        reader = readers.get(name)
        read = value if reader is None else reader(value)
        if reader is None or read is not None:
            status[name] = read
    return status


def conditions_of(obj: CustomObject) -> list[dict[str, Any]]:
    """The present conditions, without those that have no type."""
    return read_conditions(mapping(obj.status).get("conditions")) or []


def only(kind: type) -> FieldReader:
    """A reader of values of this type; a boolean is not an integer here."""

    def read(value: Any) -> Any:
        fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        return value if fits else None

    return read


def read_conditions(value: Any) -> list[dict[str, Any]] | None:
    """Reads `status.conditions`: those that have a type."""
    if not isinstance(value, list):
        return None
    items = cast("list[Any]", value)
    return [each for each in map(mapping, items) if isinstance(each.get("type"), str)]


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is a mapping, else an empty mapping."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def dig(value: Any, *path: str | int) -> Any:
    """The value at the path in plain data of any shape, None if there is none."""
    for part in path:
        if isinstance(part, str):
            value = mapping(value).get(part)
        else:
            items = cast("list[Any]", value) if isinstance(value, list) else []
            value = items[part] if part < len(items) else None
    return value


def without_nulls(value: Any) -> Any:
    """Plain data without nulls: null means absent everywhere in Kubernetes."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: without_nulls(item) for key, item in items if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in cast("list[Any]", value)]
    return value
