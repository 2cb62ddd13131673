"""Finds the other writer of a field in `metadata.managedFields`, as the server returns it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.runtime.reconcile.repairs.repairs import Path

SOMEBODY: Final = "another writer"
"""The words for a writer whose name is unknown."""

_UNTRACKED: Final = "before-first-apply"
"""Manager of fields that were written before the server tracked managers."""


def other_writer(obj: Mapping[str, Any], path: Path, *, own: str) -> str:
    """Return the words for the manager other than `own` that last wrote the field.

    A removed field has no manager; then it may be any of the others.
    """
    metadata: Mapping[str, Any] = obj.get("metadata") or {}
    entries: list[dict[str, Any]] = metadata.get("managedFields") or []
    others = [
        each
        for each in entries
        if each.get("manager") not in {own, _UNTRACKED} and each.get("subresource") != "status"
    ]
    others.sort(key=lambda each: str(each.get("time", "")), reverse=True)
    for each in others:
        if _owns(each.get("fieldsV1"), path):
            return f"{SOMEBODY} ({each['manager']})"
    names = dict.fromkeys(str(each.get("manager")) for each in others)
    return f"{SOMEBODY} (perhaps {' or '.join(names)})" if names else SOMEBODY


def _owns(fields: Mapping[str, Any] | None, path: Path) -> bool:
    """Return whether a set of fields (`f:spec: {f:type: {}}`) contains the field, or a part of it.

    An empty set stands for everything below, where the server does not divide a map or list.
    """
    for name in path:
        if fields is None:
            return False
        if not fields:
            return True
        fields = fields.get(f"f:{name}")
    return fields is not None
