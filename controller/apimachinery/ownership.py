"""The owner of an object, which decides who counts, changes and deletes it (CTL-28).

The owner is the one owner reference with `controller: true`, compared by uid. A cluster-scoped
object cannot name a namespaced owner in a reference: its label `manta.dev/owner-uid` does. Labels
of objects in a namespace never express ownership.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from controller.kube.objects import KubeObject, ObjectMeta, OwnerReference
from controller.kube.resources import Resource

OWNER_UID: Final = "manta.dev/owner-uid"
"""Label of a cluster-scoped object with the uid of the namespaced object that owns it."""


def owner_reference(resource: Resource[Any], meta: ObjectMeta) -> dict[str, Any]:
    """Return the controller owner reference that makes a child belong to `meta`'s object."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_uid(meta: ObjectMeta) -> str:
    """Return the uid of the object's owner, empty if it has none."""
    controller = meta.controller
    return controller.uid if controller is not None else _named_owner(meta)


def requested_owner(metadata: Mapping[str, Any], namespace: str) -> str:
    """Return the uid of the owner that an object to be created names, empty if it names none."""
    references: list[Mapping[str, Any]] = metadata.get("ownerReferences") or []
    for reference in references:
        if reference.get("controller"):
            return reference["uid"]
    labels: Mapping[str, str] = metadata.get("labels") or {}
    return "" if namespace else labels.get(OWNER_UID, "")


def is_owned_by(meta: ObjectMeta, uid: str) -> bool:
    """Return whether the object's owner is the one with this uid."""
    controller = meta.controller
    if controller is not None:
        return controller.uid == uid
    return bool(uid) and _named_owner(meta) == uid


def ownership_text(meta: ObjectMeta | None) -> str:
    """Return a predicate for messages about conflicts: `belongs to RayJob nightly (uid 4d1f)`.

    Args:
        meta: metadata of the object; None if only a failed create has shown that it exists.
    """
    if meta is None:
        return "belongs to another owner"
    owner = meta.controller
    if owner is None:
        uid = owner_uid(meta)
        return f"belongs to the object with uid {uid}" if uid else "belongs to no controller"
    return f"belongs to {owner.kind} {owner.name} (uid {owner.uid})"


def index_by_owner(obj: KubeObject) -> Sequence[str]:
    """Index by `owner`: yield the uid of the owner, if there is one."""
    controller = obj.metadata.controller
    if controller is not None:
        return (controller.uid,)
    uid = _named_owner(obj.metadata)
    return (uid,) if uid else ()


def _named_owner(meta: ObjectMeta) -> str:
    """Return the owner that the label names, empty if it names none."""
    return "" if meta.namespace else (meta.labels or {}).get(OWNER_UID, "")


def api_group(api_version: str) -> str | None:
    """Return the group of `group/version`, empty for the core group, None if it is malformed."""
    parts = api_version.split("/")
    if len(parts) > 2 or not all(parts):
        return None
    return parts[0] if len(parts) == 2 else ""


def refers_to(reference: OwnerReference, resource: Resource[Any]) -> bool:
    """Return whether `reference` names an object of `resource`, whatever its version (CTL-21)."""
    return reference.kind == resource.kind and api_group(reference.api_version) == resource.group


def owns_field(fields: Mapping[str, Any] | None, path: Sequence[str]) -> bool:
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
