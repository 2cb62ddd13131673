"""Containment: plain data contains everything wanted, and may contain more."""

from __future__ import annotations

from typing import Any, cast

from controller.apimachinery.custom_object import mapping


def contains(found: Any, wanted: Any) -> bool:
    """Return whether every member of `wanted` is in `found`, and lists are of equal length."""
    if isinstance(wanted, dict):
        fields = mapping(found)
        items = cast("dict[str, Any]", wanted).items()
        return all(contains(fields.get(key), item) for key, item in items)
    if isinstance(wanted, list):
        listed = cast("list[Any]", wanted)
        if not isinstance(found, list) or len(cast("list[Any]", found)) != len(listed):
            return False
        return all(map(contains, cast("list[Any]", found), listed))
    return bool(found == wanted)
