"""The metadata that children inherit from the object that they are created for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.ray.api import labels
from controller.ray.api.users_metadata import users_metadata
from controller.ray.pods.hashes.field_digests import changed_fields, field_digests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import ObjectMeta

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation of `kubectl apply`; copied to a child it would describe the wrong object."""


def inherited_stamp(owner: ObjectMeta) -> dict[str, str]:
    """Return the annotation that records what a child has inherited."""
    return {labels.INHERITED: field_digests(_inheritable(owner))}


def inherited_changes(owner: ObjectMeta, child: ObjectMeta) -> dict[str, dict[str, str | None]]:
    """Return the merge patch of a child's metadata for labels and annotations that were edited.

    Only what has changed on the owner is written, so that nothing is taken back that somebody else
    has changed on the child. Instructions to the operator (`ray.io/...`) are read when a child is
    created, and change nothing in one that runs.

    Args:
        owner: metadata of the owner.
        child: metadata of its child.
    """
    present = _inheritable(owner)
    wanted = field_digests(present)
    recorded = (child.annotations or {}).get(labels.INHERITED)
    if recorded == wanted:
        return {}
    patch: dict[str, dict[str, str | None]] = {"annotations": {labels.INHERITED: wanted}}
    for name in sorted(changed_fields(recorded, present)):
        where, _, key = name.partition(":")
        patch.setdefault(where, {})[key] = present.get(name)
    return patch


def _inheritable(owner: ObjectMeta) -> dict[str, str]:
    found = {
        **{f"labels:{key}": value for key, value in (owner.labels or {}).items()},
        **{
            f"annotations:{key}": value
            for key, value in inherited_annotations(owner.annotations).items()
        },
    }
    return {name: found[name] for name in found if ":ray.io/" not in name}


def inherited_annotations(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """Return the annotations that are neither kubectl's record nor Manta's own."""
    return {
        key: value for key, value in users_metadata(annotations).items() if key != _LAST_APPLIED
    }
