"""Writes that create, repair and delete children, each with its event.

A repair uses the best verb that KubeRay's ClusterRole grants for the resource: patch, update, or
else delete, after which the child is created again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import time_of
from controller.apimachinery.patches import holds_list
from controller.ray.api.event_nouns import event_noun
from controller.ray.children.child import child_scope
from controller.ray.permissions import granted
from controller.runtime.plan import Create, Delete, Event, MergePatch, Replace, Target

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kube.objects import KubeObject
    from controller.kube.resources import Resource
    from controller.ray.children.child import Child
    from controller.ray.children.drift import Drift
    from controller.runtime.plan import Write


RECREATE_INTERVAL: Final = timedelta(seconds=10)
"""Minimum age of a child that is deleted to be recreated; limits fights with other writers."""


def create_child(namespace: str, child: Child) -> Create:
    """Create a missing child."""
    target = Target(child.resource, namespace, child.name, child.scope)
    return Create(target, child.body, on_success=_event("Created", target), secret=child.secret)


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


def delete_child(namespace: str, resource: Resource[Any], obj: KubeObject) -> Delete:
    """Delete a child that is no longer desired."""
    name = obj.metadata.name
    target = Target(resource, namespace, name, child_scope(resource, name))
    return _delete(target, obj, "which is no longer specified")


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
    note = f"{verb} {target.resource.kind} {target.name}{why}"
    return Event("Normal", reason, verb.removesuffix("d"), note)
