"""The patch that stores a step of a state machine in the status before its effects.

It is for `Plan.commit`. Its precondition is the observed resourceVersion, so the whole step is
stored exactly once or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.runtime.plan import MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import ObjectMeta
    from controller.kube.resources import Resource
    from controller.runtime.plan import Event


def status_commit(
    resource: Resource[Any],
    meta: ObjectMeta,
    scope: str,
    status: Mapping[str, Any],
    on_success: Event | None = None,
) -> MergePatch:
    """Return the patch of an object's status.

    Args:
        resource: resource of the object.
        meta: metadata of the object as observed.
        scope: scope of the write.
        status: the changes, as a merge patch.
        on_success: event that reports the step.
    """
    return MergePatch(
        Target(resource, meta.namespace, meta.name, scope),
        meta.uid,
        {"status": status},
        subresource="status",
        resource_version=meta.resource_version,
        on_success=on_success,
    )
