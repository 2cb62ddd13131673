"""Upgrade from client-side to server-side apply, as upstream does it for `kubectl`.

Client-side apply records the whole configuration in an annotation. `kubectl` may change fields
listed there without a conflict, and the annotation follows what it applies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from controller.devcluster.apiserver.apply.fields import Path, leaves
from controller.devcluster.apiserver.jsondata import child

if TYPE_CHECKING:
    from controller.devcluster.apiserver.apply.structure import Structure
    from controller.devcluster.apiserver.jsondata import Json

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"


def formerly_applied(current: Json, manager: str, structure: Structure) -> set[Path]:
    """Return the fields that `kubectl` applied client-side; empty for other managers."""
    if manager != MANAGER:
        return set()
    noted: Any = child(current["metadata"], "annotations").get(LAST_APPLIED)
    try:
        return set(leaves(msgspec.json.decode(noted, type=dict[str, Any]), structure))
    except (msgspec.DecodeError, msgspec.ValidationError, TypeError):
        return set()


def note_applied(merged: Json, applied: Json, manager: str) -> None:
    """Update the annotation of an object that has one, in place."""
    annotations: Json = child(merged["metadata"], "annotations")
    if manager == MANAGER and LAST_APPLIED in annotations:
        annotations[LAST_APPLIED] = msgspec.json.encode(applied, order="sorted").decode() + "\n"
