"""What the `ray.io` kinds have in common as cached objects: `spec` and `status` stay plain data.

A field of a wrong type then costs only its own object: it fails when the specification is parsed,
which says where, and not in the cache.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from controller.kube.objects import KubeObject
from controller.ray.api.labels import MANAGED_BY_US

T = TypeVar("T")


class CustomObject(KubeObject, frozen=True, gc=True, weakref=True):
    """A `ray.io` object as it is cached."""

    spec: Any = msgspec.field(default_factory=dict[str, Any])
    status: Any = msgspec.field(default_factory=dict[str, Any])


def parse(data: Any, view: type[T]) -> T:
    """Plain data as a typed view, nulls dropped.

    Raises:
        msgspec.ValidationError: a field has the wrong type or is missing.
    """
    return msgspec.convert(without_nulls(data), view)


def is_managed_elsewhere(obj: CustomObject) -> bool:
    """Whether `spec.managedBy` gives the object to another controller."""
    manager = mapping(obj.spec).get("managedBy")
    return bool(manager) and manager != MANAGED_BY_US


def fitting_status(obj: CustomObject, parts: dict[str, type]) -> dict[str, Any]:
    """The status without the fields whose types are not those of `parts`, nor odd conditions."""
    status = mapping(obj.status)
    fitting = {name: part for name, part in status.items() if _fits(part, parts.get(name, object))}
    if conditions := fitting.get("conditions"):
        fitting["conditions"] = [
            each for each in conditions if isinstance(mapping(each).get("type"), str)
        ]
    return fitting


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def dig(value: Any, *path: str | int) -> Any:
    """What stands at the path of plain data of any shape, None if nothing does."""
    for part in path:
        if isinstance(part, str):
            value = mapping(value).get(part)
        else:
            items = cast("list[Any]", value) if isinstance(value, list) else []
            value = items[part] if part < len(items) else None
    return value


def without_nulls(value: Any) -> Any:
    """Null means absent everywhere in Kubernetes; dropping it once spares asking everywhere."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: without_nulls(item) for key, item in items if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in cast("list[Any]", value)]
    return value


def _fits(value: Any, kind: type) -> bool:
    """A truth value is no number here."""
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))
