"""Objects that a Ray kind owns besides its pods: desired fields, drift and writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias, cast

import msgspec

from controller.apimachinery.conditions import time_of
from controller.apimachinery.metadata import is_owned_by
from controller.apimachinery.patches import difference, holds_list
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.ray.api.labels import OWNED_FIELDS
from controller.ray.api.names import event_noun
from controller.ray.settings import granted
from controller.runtime.kind import CacheReader
from controller.runtime.plan import (
    Create,
    Delete,
    Event,
    MergePatch,
    Replace,
    SecretContent,
    Target,
    Write,
)

# A child: one object that a Ray kind owns besides its pods, in its desired state.

Body: TypeAlias = dict[str, Any]

OwnedKeys: TypeAlias = Mapping[str, frozenset[str]]
"""Keys that the operator has set, by location: `annotations`, `labels`, `ports`, `spec`."""


class DesiredFields(msgspec.Struct, frozen=True):
    """The desired state of an existing object, as far as it can be changed.

    Attributes:
        fields: desired fields; lists are complete, maps contain only the operator's keys.
        immutable_fields: sentences about fields that differ and cannot be changed.
    """

    fields: Mapping[str, Any]
    immutable_fields: tuple[str, ...] = ()


class OwnerConflict(Enum):
    """The reaction of a kind to an object of another owner under the child's name."""

    BLOCK = "block"  # no pods are created, because they depend on the child
    ADOPT = "adopt"  # used if it has no controller; otherwise no head is created
    REUSE = "reuse"  # used as it is
    IGNORE = "ignore"  # left alone and reported


def child_scope(resource: Resource[Any], name: str) -> str:
    """Return the scope of expectations about a child: `Service example-head-svc`."""
    return f"{resource.kind} {name}"


def body_of(resource: Resource[Any], metadata: Body, **fields: Any) -> Body:
    """Return an object as it is created."""
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**head, "metadata": metadata, **fields}


def as_made(_body: Mapping[str, Any], _present: Any, _formerly: OwnedKeys) -> DesiredFields:
    """Return nothing: the object stays as it was made."""
    return DesiredFields({})


def all_fields(body: Mapping[str, Any], _present: Any, _formerly: OwnedKeys) -> DesiredFields:
    """Return all fields that a create sends."""
    metadata = body["metadata"]
    kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    rest = {key: body[key] for key in body if key not in {"apiVersion", "kind", "metadata"}}
    return DesiredFields({**rest, "metadata": kept})


class Child(msgspec.Struct, frozen=True):
    """One desired object.

    Attributes:
        on_conflict: the reaction to an object of another owner under its name.
        independent: whether pods are created without waiting for it.
        desired_fields: desired fields of an existing object, from `body`, the object and the keys
            that the operator has set on it.
        secret: returns fields that are merged into the body when it is sent and stored nowhere,
            from the time of the plan and the object that `reads` names.
        reads: an object that is read for it.
    """

    resource: Resource[Any]
    body: Mapping[str, Any]
    on_conflict: OwnerConflict = OwnerConflict.BLOCK
    independent: bool = False
    desired_fields: Callable[[Mapping[str, Any], Any, OwnedKeys], DesiredFields] = all_fields
    secret: SecretContent | None = None
    reads: Target | None = None

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.body["metadata"]["name"]

    @property
    def scope(self) -> str:
        """The scope of expectations about it."""
        return child_scope(self.resource, self.name)

    def __str__(self) -> str:
        """Return `Service example-head-svc`."""
        return self.scope


# The annotation that lists the keys which the operator has set on an object.
#
# With it, a key that is no longer desired is removed, and keys that others have set are kept.


def with_owned_fields(body: Body) -> Body:
    """Return the body with an annotation that lists its keys."""
    metadata: Body = body["metadata"]
    spec: Body = body["spec"]
    keys = {
        "annotations": sorted(metadata.get("annotations", ())),
        "labels": sorted(metadata.get("labels", ())),
        "ports": sorted(port["name"] for port in spec.get("ports", ())),
        "spec": sorted(spec),
    }
    text = json.dumps({where: names for where, names in keys.items() if names}, sort_keys=True)
    annotations = metadata.get("annotations", {}) | {OWNED_FIELDS: text}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def read_owned_fields(annotations: Mapping[str, str] | None) -> OwnedKeys:
    """Return the keys that the annotation lists; none if it is malformed."""
    try:
        found: Any = json.loads((annotations or {}).get(OWNED_FIELDS, "{}"))
        return {str(where): frozenset(map(str, names)) for where, names in found.items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}


# Compares a child with the object that exists under its name.
#
# The operator owns the labels and annotations that it has set, and every other field that it sent
# when it created the object. Fields that others have added stay unchanged. Fields that the typed
# view does not contain, and values that the server has filled in, are not drift.

NAME_CONFLICT_RETRY: Final = 30.0
"""Seconds until a taken name is checked again: its release may cause no event."""


class ChildState(Enum):
    """State of the object under a child's name."""

    MISSING = "missing"
    OWNER_CONFLICT = "owner conflict"
    TERMINATING = "terminating"
    PRESENT = "present"


class Drift(msgspec.Struct, frozen=True):
    """An object that differs from the desired state.

    Attributes:
        patch: the merge patch from one to the other.
    """

    child: Child
    present: KubeObject
    patch: Body


class ObservedChild(msgspec.Struct, frozen=True):
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
        conflict = reads.record(owner_uid).has_name_conflict(child.resource, key)
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


# Writes that create, repair and delete children, each with its event.
#
# A repair uses the best verb that KubeRay's ClusterRole grants for the resource: patch, update, or
# else delete, after which the child is created again.

RECREATE_INTERVAL: Final = timedelta(seconds=10)
"""Minimum age of a child that is deleted to be recreated; limits fights with other writers."""


def create_child(namespace: str, child: Child, now: datetime) -> Create:
    """Create a missing child."""
    target = Target(child.resource, namespace, child.name, child.scope)
    secret = None if child.secret is None else SecretContent(partial(child.secret, now))
    created = _event("Created", target)
    return Create(target, child.body, on_success=created, secret=secret, reads=child.reads)


def repair_child(namespace: str, drift: Drift, now: datetime) -> Write | None:
    """Return the write that brings a child to its desired state; None if none is possible now."""
    child, meta, patch = drift.child, drift.present.metadata, drift.patch
    target = Target(child.resource, namespace, child.name, child.scope)
    updated = _event("Updated", target)
    if "patch" in granted(child.resource):
        revision = meta.resource_version if holds_list(patch) else None
        return MergePatch(target, meta.uid, patch, resource_version=revision, on_success=updated)
    if "update" in granted(child.resource):
        return Replace(target, meta.uid, patch, on_success=updated)
    if _needs_recreation(drift) and seconds_until_recreation(drift, now) is None:
        return _delete(target, drift.present, "to be recreated as specified")
    return None


def delete_child(
    namespace: str,
    resource: Resource[Any],
    obj: KubeObject,
    why: str = "which is no longer specified",
) -> Delete:
    """Delete a child that is no longer desired."""
    name = obj.metadata.name
    target = Target(resource, namespace, name, child_scope(resource, name))
    return _delete(target, obj, why)


def seconds_until_recreation(drift: Drift, now: datetime) -> float | None:
    """Return the seconds until a child may be recreated; None if no repair waits for that."""
    created = time_of(drift.present.metadata.creation_timestamp)
    if created is None or not _needs_recreation(drift):
        return None
    seconds = (created + RECREATE_INTERVAL - now).total_seconds()
    return seconds if seconds > 0 else None


def _needs_recreation(drift: Drift) -> bool:
    """Return whether more than metadata differs, and no granted verb can change it."""
    changing = {"patch", "update"} & set(granted(drift.child.resource))
    return not changing and bool(drift.patch.keys() - {"metadata"})


def _delete(target: Target, obj: KubeObject, why: str) -> Delete:
    return Delete(target, obj.metadata.uid, on_success=_event("Deleted", target, f", {why}"))


def _event(verb: str, target: Target, why: str = "") -> Event:
    reason = f"{verb}{event_noun(target.resource)}"
    if reason == "UpdatedCertificate":
        reason = "MTLSCertificatesUpdated"  # as in KubeRay
    note = f"{verb} {target.resource.kind} {target.name}{why}"
    return Event("Normal", reason, verb.removesuffix("d"), note)
