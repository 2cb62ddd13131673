"""Finalizers are added and removed one at a time, leaving those of others alone.

Both are JSON patches for `Plan.commit`: a `test` on the resourceVersion makes sure that the list
is the one that was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.runtime.plan import JsonPatch

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta
    from controller.runtime.plan import Target


def add_finalizer(target: Target, meta: ObjectMeta, finalizer: str) -> JsonPatch | None:
    """The patch that adds `finalizer`, None if it is there already."""
    if finalizer in meta.finalizers:
        return None
    operation: dict[str, Any]
    if meta.finalizers:
        operation = {"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}
    else:
        operation = {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]}
    return JsonPatch(target, meta.uid, (_unchanged(meta), operation))


def remove_finalizer(target: Target, meta: ObjectMeta, finalizer: str) -> JsonPatch | None:
    """The patch that removes `finalizer`, None if it is not there."""
    if finalizer not in meta.finalizers:
        return None
    path = f"/metadata/finalizers/{meta.finalizers.index(finalizer)}"
    return JsonPatch(
        target,
        meta.uid,
        (
            _unchanged(meta),
            {"op": "test", "path": path, "value": finalizer},
            {"op": "remove", "path": path},
        ),
    )


def _unchanged(meta: ObjectMeta) -> dict[str, Any]:
    return {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version}
