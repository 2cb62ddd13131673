"""Suspends and resumes a RayService: stored in conditions before anything is deleted.

Once it is stored, a suspension is completed whatever the specification says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.conditions import READY, ConditionSet, is_true
from controller.kube.resources import GATEWAYS, HTTP_ROUTES, SERVICES
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.children.writes import delete_child
from controller.ray.service.closing import seconds_to_cut
from controller.ray.service.cluster.writes import delete_closed
from controller.ray.service.condition_types import (
    ROLLBACK_IN_PROGRESS,
    SUSPENDED,
    SUSPENDING,
    UPGRADE_IN_PROGRESS,
)
from controller.ray.service.observation import ACTIVE, PENDING
from controller.ray.service.status.closing_text import closing_text
from controller.runtime.plan import Event, Plan, StatusPatch
from controller.runtime.reconcile.definitions.unknown_fields import set_fields_known
from controller.runtime.reconcile.status.commit import status_commit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from controller.kube.objects import KubeObject
    from controller.kube.resources import Resource
    from controller.ray.service.observation import ServiceObservation
    from controller.runtime.plan import MergePatch, Write


def plan_suspension(seen: ServiceObservation, now: datetime) -> Plan | None:
    """Return the next step of a suspension or its end; None if the RayService should serve."""
    if is_suspending(seen):
        left = tuple(_deletions(seen, now))
        if left or has_leftovers(seen):
            return Plan(
                stages=(left,) if left else (),
                status=_waiting(seen, now),
                requeue_after=min(seconds_to_cut(seen, now), default=None),
            )
        return Plan(commit=_completed(seen, now))
    suspend = seen.valid_goal.spec.suspend
    if is_true(seen.status.get("conditions", ()), SUSPENDED):
        return Plan(status=_remains(seen, now)) if suspend else Plan(commit=_resumed(seen, now))
    return Plan(commit=_requested(seen, now)) if suspend else None


def is_suspending(seen: ServiceObservation) -> bool:
    """Return whether a suspension has begun and not ended; the specification does not count."""
    return is_true(seen.status.get("conditions", ()), SUSPENDING)


def has_leftovers(seen: ServiceObservation) -> bool:
    """Return whether a cluster or a service of the RayService exists or may exist."""
    clusters = any(each.cluster is not None and not each.foreign for each in seen.clusters)
    routes = any(True for _ in _routing_objects(seen))
    return clusters or routes or bool(seen.others or seen.services or seen.pending_scopes)


def _routing_objects(seen: ServiceObservation) -> Iterator[tuple[Resource[Any], KubeObject]]:
    """Yield Gateway and route; the services of the clusters are deleted with them."""
    for resource, found in (
        (GATEWAYS, seen.routing.gateway),
        (HTTP_ROUTES, seen.routing.route),
    ):
        if found is not None:
            yield resource, found


def _deletions(seen: ServiceObservation, now: datetime) -> Iterator[Write]:
    """Yield the deletions of what leads to the clusters, then of those without connections."""
    yield from delete_closed(seen, now)
    for service in seen.services:
        if not service.metadata.terminating:
            yield delete_child(seen.service.metadata.namespace, SERVICES, service)
    for resource, found in _routing_objects(seen):
        if not found.metadata.terminating:
            yield delete_child(seen.service.metadata.namespace, resource, found)


def _requested(seen: ServiceObservation, now: datetime) -> MergePatch:
    conditions = _conditions(seen, now)
    conditions.set(SUSPENDING, "True", "SuspendRequested", "spec.suspend is true")
    for kind in (READY, UPGRADE_IN_PROGRESS, ROLLBACK_IN_PROGRESS):
        conditions.set(kind, "False", "SuspendInProgress", "spec.suspend is true")
    cleared = {ACTIVE: None, PENDING: None, "numServeEndpoints": 0, "serviceStatus": ""}
    return _patch(seen, conditions, cleared, None)


def _waiting(seen: ServiceObservation, now: datetime) -> StatusPatch:
    """Report which connections the suspension waits for."""
    conditions = _conditions(seen, now)
    message = f"spec.suspend is true; {closing_text(seen, now)}".removesuffix("; ")
    conditions.set(SUSPENDING, "True", "SuspendRequested", message)
    return StatusPatch({"conditions": conditions.as_list()})


def _completed(seen: ServiceObservation, now: datetime) -> MergePatch:
    return _patch(seen, _completed_conditions(seen, now), {}, "Suspended")


def _remains(seen: ServiceObservation, now: datetime) -> StatusPatch:
    """Report whether edits are valid, and that they were observed."""
    conditions = _completed_conditions(seen, now)
    set_fields_known(conditions, seen.unknown_fields)
    seen.definition.set_in(conditions)
    generation = seen.service.metadata.generation
    return StatusPatch({"observedGeneration": generation, "conditions": conditions.as_list()})


def _completed_conditions(seen: ServiceObservation, now: datetime) -> ConditionSet:
    conditions = _conditions(seen, now)
    conditions.set(SUSPENDING, "False", "SuspendComplete", "")
    conditions.set(SUSPENDED, "True", "SuspendComplete", "its clusters and services are deleted")
    for kind in (READY, UPGRADE_IN_PROGRESS, ROLLBACK_IN_PROGRESS):
        conditions.set(kind, "False", "SuspendComplete", "spec.suspend is true")
    return conditions


def _resumed(seen: ServiceObservation, now: datetime) -> MergePatch:
    """Resume; `Ready` begins anew, and with it the time to initialize."""
    conditions = _conditions(seen, now)
    conditions.set(SUSPENDED, "False", "RayServiceResumed", "")
    for kind in (READY, UPGRADE_IN_PROGRESS):
        conditions.remove(kind)
        conditions.set(kind, "False", "Initializing", "")
    return _patch(seen, conditions, {}, "Resumed")


def _conditions(seen: ServiceObservation, now: datetime) -> ConditionSet:
    stored = seen.status.get("conditions", ())
    return ConditionSet(stored, seen.service.metadata.generation, now)


def _patch(
    seen: ServiceObservation, conditions: ConditionSet, changes: dict[str, Any], what: str | None
) -> MergePatch:
    meta = seen.service.metadata
    status = {**changes, "conditions": conditions.as_list(), "observedGeneration": meta.generation}
    event = Event("Normal", f"RayService{what}", "Update", f"{what} {meta.name}") if what else None
    return status_commit(RAYSERVICES, meta, "suspension", status, event)
