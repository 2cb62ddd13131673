"""Patches that add or remove one finalizer and keep all others.

Both are for `Plan.commit`. They replace the whole list, with the resourceVersion as precondition,
so that a concurrent change leads to a conflict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.runtime.plan import MergePatch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.kube.objects import ObjectMeta
    from controller.runtime.plan import Event, Target


def add_finalizer(target: Target, meta: ObjectMeta, finalizer: str) -> MergePatch | None:
    """Return the patch that adds `finalizer`, None if it is there already."""
    if finalizer in meta.finalizers:
        return None
    return _replace(target, meta, [*meta.finalizers, finalizer])


def remove_finalizer(
    target: Target, meta: ObjectMeta, finalizer: str, *, on_success: Event | None = None
) -> MergePatch | None:
    """Return the patch that removes `finalizer`, None if it is not there."""
    if finalizer not in meta.finalizers:
        return None
    left = (each for each in meta.finalizers if each != finalizer)
    return _replace(target, meta, left, on_success)


def _replace(
    target: Target, meta: ObjectMeta, finalizers: Iterable[str], on_success: Event | None = None
) -> MergePatch:
    return MergePatch(
        target,
        meta.uid,
        {"metadata": {"finalizers": list(finalizers)}},
        resource_version=meta.resource_version,
        on_success=on_success,
    )
