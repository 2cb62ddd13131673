"""Doubts whether the groups in a specification are what the user wrote.

`held_deletions.py` defines when a number is explained, and what happens to unexplained deletions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import find_condition, is_true
from controller.apimachinery.custom_object import status_of
from controller.ray.api.cluster_condition_types import DELETION_HELD, HEAD_POD_READY
from controller.ray.cluster.doubts.confirmation import is_confirmed
from controller.ray.cluster.doubts.definition import fields_that_make_pods

if TYPE_CHECKING:
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster


def doubts_groups(seen: ClusterObservation, desired: DesiredCluster) -> bool:
    """Return whether the groups may not be what the user wrote: no rolling update runs then."""
    is_incomplete = bool(fields_that_make_pods(seen.definition)) and not is_confirmed(seen.cluster)
    return is_incomplete or bool(unexplained_number(seen, desired))


def unexplained_number(seen: ClusterObservation, desired: DesiredCluster) -> str:
    """Return why the specified number of workers is doubtful, empty if it is not."""
    if is_confirmed(seen.cluster):
        return ""
    status, generation = status_of(seen.cluster), seen.cluster.metadata.generation
    if since := held_since(seen):
        return since
    before, now = status.get("desiredWorkerReplicas"), desired.spec.desired_workers
    if not isinstance(before, int) or now >= before:
        return ""
    if recorded_generation(seen) == generation:
        return (
            f"generation {generation} of the specification asked for {before} workers and now "
            f"asks for {now}, without an edit"
        )
    if desired.spec.autoscaling and is_true(seen.conditions, DELETION_HELD):
        return f"an edit, perhaps by an autoscaler, asks for {now} workers instead of {before}"
    return ""


def held_since(seen: ClusterObservation) -> str:
    """Return why deletions stay held until the next edit, empty if they do not."""
    held = find_condition(seen.conditions, DELETION_HELD) or {}
    generation = seen.cluster.metadata.generation
    if held.get("status") == "True" and held.get("observedGeneration") == generation:
        return f"deletions are held since generation {generation} of the specification was observed"
    return ""


def recorded_generation(seen: ClusterObservation) -> int | None:
    """Return the generation whose number of workers the status has.

    A refused specification is observed but not counted; then all conditions but `Ready` are older.
    """
    counted = (find_condition(seen.conditions, HEAD_POD_READY) or {}).get("observedGeneration")
    return counted or status_of(seen.cluster).get("observedGeneration")
