"""What the kinds of `ray.io` have in common as cached objects."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.apimachinery.custom_object import CustomObject, mapping
from controller.ray.api.labels import MANAGED_BY_US


class RayObject(CustomObject, frozen=True, gc=True, weakref=True):
    """An object of `ray.io` as it is cached; its specification is plain data until it is parsed."""

    spec: Any = msgspec.field(default_factory=dict[str, Any])


def is_managed_elsewhere(obj: RayObject) -> bool:
    """Whether `spec.managedBy` gives the object to another controller."""
    manager = mapping(obj.spec).get("managedBy")
    return bool(manager) and manager != MANAGED_BY_US
