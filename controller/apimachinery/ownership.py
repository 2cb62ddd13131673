"""Controller owner references, which decide who counts, changes and deletes an object (CTL-28).

The owner is the one owner reference with `controller: true`, compared by uid. Labels never express
ownership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.kube.objects import KubeObject, ObjectMeta, OwnerReference
    from controller.kube.resources import Resource


def owner_reference(resource: Resource[Any], meta: ObjectMeta) -> dict[str, Any]:
    """The controller owner reference that makes a child belong to `meta`'s object."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_owned_by(meta: ObjectMeta, uid: str) -> bool:
    """Return whether the object's controller owner is the one with this uid."""
    controller = meta.controller
    return controller is not None and controller.uid == uid


def ownership_text(meta: ObjectMeta | None) -> str:
    """The predicate of messages about conflicts: `belongs to RayJob nightly (uid 4d1f)`.

    Args:
        meta: metadata of the object; None if only a failed create has shown that it exists.
    """
    if meta is None:
        return "belongs to another owner"
    owner = meta.controller
    if owner is None:
        return "belongs to no controller"
    return f"belongs to {owner.kind} {owner.name} (uid {owner.uid})"


def index_by_owner(obj: KubeObject) -> Sequence[str]:
    """Index function `owner`: uid of the controller owner, if there is one."""
    controller = obj.metadata.controller
    return (controller.uid,) if controller is not None else ()


def api_group(api_version: str) -> str | None:
    """Group of `group/version`, empty for the core group, None if it cannot be parsed."""
    parts = api_version.split("/")
    if len(parts) > 2 or not all(parts):
        return None
    return parts[0] if len(parts) == 2 else ""


def refers_to(reference: OwnerReference, resource: Resource[Any]) -> bool:
    """Return whether `reference` names an object of `resource`, whatever its version (CTL-21)."""
    return reference.kind == resource.kind and api_group(reference.api_version) == resource.group
