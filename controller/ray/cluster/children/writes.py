"""What to do about a cluster's parts: make what is missing, put right what has changed.

Parts that pods depend on are made before them. All else, and every repair, is done aside: it
neither waits for pods nor keeps them waiting.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import find_condition
from controller.apimachinery.merge_patch import holds_list
from controller.apimachinery.timestamps import parse_rfc3339
from controller.kube.resources import ROLE_BINDINGS
from controller.ray.api.event_nouns import event_noun
from controller.ray.children.child import child_scope
from controller.ray.cluster.status.conditions import CHILDREN_AS_SPECIFIED
from controller.ray.permissions import granted
from controller.runtime.reconcile.plan import Create, Delete, Event, MergePatch, Replace, Target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from controller.kube.objects import KubeObject
    from controller.ray.children.child import Child
    from controller.ray.cluster.children.observed import Drift
    from controller.ray.cluster.observe import Design, Observation
    from controller.runtime.reconcile.plan import Write


RECREATE_INTERVAL: Final = timedelta(seconds=10)
"""Least age of a part that is deleted to be made anew: so often at most, whoever changes it."""


def create_children(seen: Observation, design: Design) -> tuple[list[Write], list[Write]]:
    """Make what pods depend on, in two stages: no binding is accepted before its role is there."""
    parts: list[Write] = []
    bindings: list[Write] = []
    for part in seen.children.absent:
        if not part.independent and part.scope not in seen.unsettled:
            stage = bindings if part.resource is ROLE_BINDINGS else parts
            stage.append(_create(design.identity.namespace, part))
    return parts, bindings


def repair_children(seen: Observation, design: Design, now: datetime) -> Iterator[Write]:
    """Make what pods do not depend on, put right what has changed, and delete what is too much."""
    namespace = design.identity.namespace
    for part in seen.children.absent:
        if part.independent and part.scope not in seen.unsettled:
            yield _create(namespace, part)
    for drift in seen.children.drifted:
        if drift.child.scope not in seen.unsettled:
            yield from _put_right(namespace, drift, now)
    for resource, obj in seen.children.surplus:
        name = obj.metadata.name
        target = Target(resource, namespace, name, child_scope(resource, name))
        if target.scope not in seen.unsettled:
            yield _delete(target, obj, "which is no longer asked for")


def child_events(seen: Observation) -> Iterator[Event]:
    """What only a person can put right, unless the condition says it already."""
    said = find_condition(seen.conditions, CHILDREN_AS_SPECIFIED) or {}
    for note in seen.children.notes:
        if note.message not in str(said.get("message", "")):
            yield Event("Warning", note.event, "Reconcile", note.message)


def _create(namespace: str, part: Child) -> Create:
    target = Target(part.resource, namespace, part.name, part.scope)
    return Create(
        target,
        part.body,
        on_success=_done("Created", target),
        secret=part.secret,
    )


def _put_right(namespace: str, drift: Drift, now: datetime) -> Iterator[Write]:
    """By the verbs that KubeRay's ClusterRole has for the resource."""
    part, meta, patch = drift.child, drift.present.metadata, drift.patch
    target = Target(part.resource, namespace, part.name, part.scope)
    done = _done("Updated", target)
    if "patch" in granted(part.resource):
        revision = meta.resource_version if holds_list(patch) else None
        yield MergePatch(target, meta.uid, patch, resource_version=revision, on_success=done)
    elif "update" in granted(part.resource):
        yield Replace(target, meta.uid, patch, on_success=done)
    elif _must_be_remade(drift) and not _was_just_made(drift.present, now):
        yield _delete(target, drift.present, "to be made anew as specified")


def repairs_wait(seen: Observation, now: datetime) -> bool:
    """Whether a part is not put right yet, because it was made only just now."""
    return any(
        _must_be_remade(drift) and _was_just_made(drift.present, now)
        for drift in seen.children.drifted
    )


def _must_be_remade(drift: Drift) -> bool:
    """Whether more than labels differs, and no verb is granted that could change it."""
    changing = {"patch", "update"} & set(granted(drift.child.resource))
    return not changing and bool(drift.patch.keys() - {"metadata"})


def _was_just_made(obj: KubeObject, now: datetime) -> bool:
    """Made, and changed since by somebody who will perhaps do it again."""
    made = obj.metadata.creation_timestamp
    return made is not None and now - parse_rfc3339(made) < RECREATE_INTERVAL


def _delete(target: Target, obj: KubeObject, why: str) -> Delete:
    return Delete(
        target,
        obj.metadata.uid,
        on_success=_done("Deleted", target, f", {why}"),
    )


def _done(verb: str, target: Target, why: str = "") -> Event:
    reason = f"{verb}{event_noun(target.resource)}"
    note = f"{verb} {target.resource.kind} {target.name}{why}"
    return Event("Normal", reason, verb.removesuffix("d"), note)
