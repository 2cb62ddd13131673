"""The status between the steps of the rollout: what Ray and the clusters report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.conditions import READY, ConditionSet, find_condition
from controller.apimachinery.custom_object import mapping, status_of
from controller.apimachinery.merge_patch import difference, replacement
from controller.apimachinery.problem import Problem
from controller.apimachinery.timestamps import rfc3339
from controller.ray.api.unknown_fields import set_fields_known, unknown_field_events
from controller.ray.service.observation import ACTIVE, PENDING
from controller.ray.service.serving.proxies import serve_state
from controller.ray.service.status.condition_types import UPGRADE_IN_PROGRESS
from controller.ray.service.status.readiness import Cause, first_cause
from controller.runtime.reconcile.plan import Event, StatusPatch

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard import ServeState
    from controller.ray.service.observation import ServiceObservation, ServingCluster
    from controller.ray.service.settings import ServiceSettings
    from controller.runtime.reconcile.plan import Failure

Status = dict[str, Any]


def current_status(
    seen: ServiceObservation,
    settings: ServiceSettings,
    now: datetime,
    failures: tuple[Failure, ...] = (),
) -> StatusPatch:
    """The wanted status if no step is due."""
    endpoints = len(seen.endpoints)
    cause = first_cause(seen, settings, failures)
    conditions = _conditions(seen, cause, endpoints, now)
    wanted: Status = {
        "observedGeneration": seen.service.metadata.generation,
        "numServeEndpoints": endpoints,
        "serviceStatus": "Running" if endpoints else "",
        "conditions": conditions.as_list(),
    }
    for cluster in seen.clusters:
        wanted[cluster.role] = _cluster_state(seen, cluster)
    events = _events(seen, cause)
    changed = difference(dict(seen.status), wanted)
    urgent = bool(events) or bool(changed.keys() - {ACTIVE, PENDING})
    return StatusPatch(
        wanted, urgent=urgent, interval=3.0, events=events, stamps={"lastUpdateTime": rfc3339(now)}
    )


def _cluster_state(seen: ServiceObservation, cluster: ServingCluster) -> Status:
    recorded = seen.recorded(cluster.role)
    state: Status = {}
    if cluster.cluster is not None:
        state["rayClusterStatus"] = replacement(
            mapping(recorded.get("rayClusterStatus")), status_of(cluster.cluster)
        )
    reported = serve_state(cluster)
    if reported is not None:
        present = mapping(recorded.get("applicationStatuses"))
        state["applicationStatuses"] = replacement(present, _applications(reported))
    return state


def _applications(state: ServeState) -> Status:
    return {
        name: {
            "status": each.status,
            "message": each.message,
            "serveDeploymentStatuses": {
                deployment: {"status": found.status, "message": found.message}
                for deployment, found in each.deployments.items()
            },
        }
        for name, each in state.applications.items()
    }


def _conditions(
    seen: ServiceObservation, cause: Cause, endpoints: int, now: datetime
) -> ConditionSet:
    stored = seen.status.get("conditions", ())
    conditions = ConditionSet(stored, seen.service.metadata.generation, now)
    set_fields_known(conditions, seen.unknown_fields)
    seen.definition.set_in(conditions)
    if isinstance(seen.goal, Problem):
        conditions.set(READY, "False", "ValidationFailed", str(seen.goal))
        return conditions
    was_ready = conditions.is_true(READY)
    if endpoints:
        conditions.set(READY, "True", "NonZeroServeEndpoints", f"{endpoints} pods serve")
    elif was_ready or (find_condition(stored, READY) or {}).get("reason") == "ZeroServeEndpoints":
        conditions.set(READY, "False", "ZeroServeEndpoints", cause.message)
    else:
        conditions.set(READY, "False", "Initializing", cause.message)
    if seen.active is not None and seen.pending is not None:
        message = cause.message
        reason = "BothActivePendingClustersExist"
        conditions.set(UPGRADE_IN_PROGRESS, "True", reason, message)
    elif seen.active is not None:
        conditions.set(UPGRADE_IN_PROGRESS, "False", "NoPendingCluster", "")
    elif find_condition(stored, UPGRADE_IN_PROGRESS) is None:
        conditions.set(UPGRADE_IN_PROGRESS, "False", "Initializing", "")
    return conditions


def _events(seen: ServiceObservation, cause: Cause) -> tuple[Event, ...]:
    stored = seen.status.get("conditions", ())
    events = unknown_field_events(stored, seen.unknown_fields)
    told = find_condition(stored, READY) or {}
    if not cause.event or told.get("message") == cause.message:
        return events
    return (*events, Event("Warning", cause.event, "Reconcile", cause.message))
