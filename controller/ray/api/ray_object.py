"""The common base of the cached `ray.io` objects."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.apimachinery.custom_object import CustomObject, mapping
from controller.ray.api.labels import MANAGED_BY_US


class RayObject(CustomObject, frozen=True, gc=True, weakref=True):
    """A cached `ray.io` object; its specification is plain data until it is parsed."""

    spec: Any = msgspec.field(default_factory=dict[str, Any])


def is_managed_elsewhere(obj: RayObject) -> bool:
    """Return whether `spec.managedBy` names another controller."""
    manager = mapping(obj.spec).get("managedBy")
    return bool(manager) and manager != MANAGED_BY_US
