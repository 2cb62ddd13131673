"""Compares a child with the object that exists under its name.

The operator owns the labels and annotations that it has set, and every other field that it sent
when it created the object. Fields that others have added stay unchanged. Fields that the typed
view does not contain, and values that the server has filled in, are not drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from controller.apimachinery.ownership import is_owned_by
from controller.apimachinery.patches import difference
from controller.ray.children.child import OwnerConflict
from controller.ray.children.owned_fields import read_owned_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import KubeObject
    from controller.ray.children.child import Body, Child, OwnedKeys
    from controller.runtime.kind import CacheReader


NAME_CONFLICT_RETRY: Final = 30.0
"""Seconds until a taken name is checked again: its release may cause no event."""


class ChildState(Enum):
    """State of the object under a child's name."""

    MISSING = "missing"
    OWNER_CONFLICT = "owner conflict"
    TERMINATING = "terminating"
    PRESENT = "present"


@dataclass(frozen=True, slots=True)
class Drift:
    """An object that differs from the desired state.

    Attributes:
        child: the desired state.
        present: the object.
        patch: the merge patch from one to the other.
    """

    child: Child
    present: KubeObject
    patch: Body


@dataclass(frozen=True, slots=True)
class ObservedChild:
    """A child as the cache shows it.

    Attributes:
        state: state of the object under its name.
        present: that object; None if it is missing or if only a failed create has shown it.
        drift: how a present object differs from the desired state; None if it does not.
        immutable_fields: sentences about fields that differ and cannot be changed.
    """

    state: ChildState
    present: KubeObject | None = None
    drift: Drift | None = None
    immutable_fields: tuple[str, ...] = ()


def observe_child(
    child: Child, namespace: str, owner_uid: str, reads: CacheReader
) -> ObservedChild:
    """Look up the child of the owner with that uid and compare it."""
    key = f"{namespace}/{child.name}"
    present: KubeObject | None = reads.get(child.resource, key)
    if present is None:
        conflict = reads.has_name_conflict(child.resource, key)
        return ObservedChild(ChildState.OWNER_CONFLICT if conflict else ChildState.MISSING)
    if not _is_ours(child, present, owner_uid):
        return ObservedChild(ChildState.OWNER_CONFLICT, present)
    if present.metadata.terminating:
        return ObservedChild(ChildState.TERMINATING, present)
    patch, immutable_fields = _compare(child, present)
    drift = Drift(child, present, patch) if patch else None
    return ObservedChild(ChildState.PRESENT, present, drift, immutable_fields)


def _is_ours(child: Child, present: KubeObject, owner_uid: str) -> bool:
    adopted = child.on_conflict is OwnerConflict.ADOPT and present.metadata.controller is None
    return adopted or is_owned_by(present.metadata, owner_uid)


def _compare(child: Child, present: KubeObject) -> tuple[Body, tuple[str, ...]]:
    """Return the merge patch to the desired state, and sentences about immutable fields."""
    formerly = read_owned_fields(present.metadata.annotations)
    desired = child.desired_fields(child.body, present, formerly)
    now: Body = msgspec.to_builtins(present)
    wanted = _visible(desired.fields, now)
    removed = _removed(formerly, read_owned_fields(child.body["metadata"].get("annotations")))
    for where in ("labels", "annotations"):
        if removed.get(where):
            metadata: Body = wanted.setdefault("metadata", {})
            metadata[where] = removed[where] | metadata.get(where, {})
    if removed.get("spec"):
        wanted["spec"] = removed["spec"] | wanted.get("spec", {})
    return difference(now, wanted), desired.immutable_fields


def _removed(formerly: OwnedKeys, wanted: OwnedKeys) -> dict[str, dict[str, None]]:
    """Return merge patch values for keys that the operator has set and no longer wants."""
    return {
        where: dict.fromkeys(sorted(names - wanted.get(where, frozenset())))
        for where, names in formerly.items()
    }


def _visible(wanted: Mapping[str, Any], now: Mapping[str, Any]) -> Body:
    """Return the desired fields without members of object and spec that the view lacks."""
    visible: Body = {key: value for key, value in wanted.items() if key in now}
    spec: Any = now.get("spec")
    if isinstance(spec, dict) and "spec" in visible:
        known = cast("Body", spec)
        visible["spec"] = {key: value for key, value in visible["spec"].items() if key in known}
    return visible
