"""Writes that create, change and delete the RayClusters of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.fleet.body import changes_in_place, copy_body, place_of
from controller.ray.fleet.observation import SCOPE
from controller.ray.pods.hashes.template_hash import is_former
from controller.runtime.plan import Create, Delete, Event, JsonPatch, MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.fleet.copies import Copy
    from controller.ray.fleet.observation import FleetObservation
    from controller.ray.fleet.rollout import FleetStep
    from controller.runtime.plan import Write


def create_copies(seen: FleetObservation, step: FleetStep) -> Iterator[Write]:
    """Create the copies that are due."""
    for index in step.create:
        body = copy_body(seen.fleet.metadata, seen.valid_goal, index)
        name = body["metadata"]["name"]
        note = f"Created RayCluster {name}, copy {index} of {seen.desired}"
        created = Event(
            "Normal", "CreatedRayCluster", "Create", note, "Created {count} RayClusters"
        )
        yield Create(_target(seen, name), body, on_success=created)


def delete_copies(seen: FleetObservation, step: FleetStep) -> Iterator[Write]:
    """Delete the copies that retire, and surplus ones."""
    for copy in step.retire:
        yield _delete(seen, copy, "its template is outdated")
    for copy in step.remove:
        yield _delete(seen, copy, f"the fleet has {seen.desired} copies")


def update_copies(seen: FleetObservation, step: FleetStep) -> Iterator[Write]:
    """Patch copies that stay where a running cluster may change.

    Worker groups of outdated copies are not changed: their replacements get the new numbers.
    """
    leaving = {copy.name for copy in step.retire}
    for copy in seen.wanted:
        if copy.stays and copy.name not in leaving:
            yield from _update(seen, copy)


def _update(seen: FleetObservation, copy: Copy) -> Iterator[Write]:
    meta, goal = copy.cluster.metadata, seen.valid_goal
    operations = changes_in_place(copy.cluster, goal) if copy.up_to_date else ()
    if operations:
        note = f"Updated RayCluster {copy.name}"
        updated = Event(
            "Normal", "UpdatedRayCluster", "Update", note, "Updated {count} RayClusters"
        )
        yield JsonPatch(_target(seen, copy.name), meta.uid, operations, on_success=updated)
        return  # it changes the revision that a second patch would ask for
    patch: dict[str, object] = {}
    suspend = goal.spec.template.spec.get("suspend")
    if suspend is not None and copy.is_told_to_suspend is not suspend:
        patch["spec"] = {"suspend": suspend}
    wanted, present = place_of(goal, copy.index), meta.annotations or {}
    if is_former(present.get(labels.MADE_FROM), goal.template_hash):
        wanted[labels.MADE_FROM] = str(goal.template_hash)
    stamps = {key: value for key, value in wanted.items() if present.get(key) != value}
    if stamps:
        patch["metadata"] = {"annotations": stamps}
    if patch:
        yield MergePatch(_target(seen, copy.name), meta.uid, patch)


def _delete(seen: FleetObservation, copy: Copy, why: str) -> Delete:
    deleted = Event(
        "Normal",
        "DeletedRayCluster",
        "Delete",
        f"Deleted RayCluster {copy.name}: {why}",
        f"Deleted {{count}} RayClusters: {why}",
    )
    return Delete(_target(seen, copy.name), copy.cluster.metadata.uid, on_success=deleted)


def _target(seen: FleetObservation, name: str) -> Target:
    return Target(RAYCLUSTERS, seen.fleet.metadata.namespace, name, SCOPE)
