"""Writes that bring a cluster's children to their desired state.

Children that pods depend on are created before the pods. Other children and all repairs are
independent of the pods: neither waits for the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import find_condition, tells
from controller.kube.resources import ROLE_BINDINGS
from controller.ray.api.cluster_condition_types import CHILDREN_AS_SPECIFIED
from controller.ray.children.child import child_scope
from controller.ray.children.writes import (
    create_child,
    delete_child,
    repair_child,
    seconds_until_recreation,
)
from controller.runtime.plan import Event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.runtime.plan import Write


def create_children(
    seen: ClusterObservation, desired: DesiredCluster
) -> tuple[list[Write], list[Write]]:
    """Create what pods depend on, in two stages, because a role binding requires its role."""
    first: list[Write] = []
    bindings: list[Write] = []
    for child in seen.children.absent:
        if not child.independent and child.scope not in seen.pending_scopes:
            stage = bindings if child.resource is ROLE_BINDINGS else first
            stage.append(create_child(desired.identity.namespace, child))
    return first, [] if has_unconfirmed_children(seen) else bindings


def has_unconfirmed_children(seen: ClusterObservation) -> bool:
    """Return whether a child that pods depend on may or may not exist."""
    absent = (child for child in seen.children.absent if not child.independent)
    return any(child.scope in seen.pending_scopes for child in absent)


def repair_children(
    seen: ClusterObservation, desired: DesiredCluster, now: datetime
) -> Iterator[Write]:
    """Create independent children, repair those that differ, delete those not desired."""
    namespace = desired.identity.namespace
    for child in seen.children.absent:
        if child.independent and child.scope not in seen.pending_scopes:
            yield create_child(namespace, child)
    for drift in seen.children.drifted:
        if drift.child.scope not in seen.pending_scopes:
            write = repair_child(namespace, drift, now)
            if write is not None:
                yield write
    for resource, obj in seen.children.surplus:
        if child_scope(resource, obj.metadata.name) not in seen.pending_scopes:
            yield delete_child(namespace, resource, obj)


def child_events(seen: ClusterObservation) -> Iterator[Event]:
    """Yield events about children that only a person can repair, if no condition names them yet."""
    condition = find_condition(seen.conditions, CHILDREN_AS_SPECIFIED) or {}
    if tells(condition, seen.children.notes_in_words):
        return
    for note in seen.children.notes:
        if not tells(condition, note.message):
            yield Event("Warning", note.event, "Reconcile", note.message)


def seconds_until_repair(seen: ClusterObservation, now: datetime) -> float | None:
    """Return the seconds until a child may be recreated; None if no repair waits for that."""
    waits = (seconds_until_recreation(drift, now) for drift in seen.children.drifted)
    return min((seconds for seconds in waits if seconds is not None), default=None)
