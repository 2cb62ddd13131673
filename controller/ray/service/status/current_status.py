"""The status between the steps of the rollout: the reports of Ray and the clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import READY, ConditionSet, find_condition, rfc3339, tells
from controller.apimachinery.custom_object import mapping, status_of
from controller.apimachinery.patches import difference, replacement
from controller.apimachinery.problem import Problem
from controller.apimachinery.redaction import excerpt
from controller.ray.service.condition_types import UPGRADE_IN_PROGRESS
from controller.ray.service.observation import ACTIVE, PENDING
from controller.ray.service.rollout.edits import keeps_outdated_cluster
from controller.ray.service.serving.proxies import serve_state
from controller.ray.service.status.closing_text import closing_text
from controller.ray.service.status.facts import collect_facts, is_followed
from controller.ray.service.status.readiness import (
    ServiceCause,
    cause_of,
    cause_of_rollout,
    first_cause,
)
from controller.ray.service.status.shares_text import shares_text
from controller.ray.service.traffic.routing import routing_problem
from controller.runtime.plan import Event, StatusPatch
from controller.runtime.reconcile.definitions.unknown_fields import (
    set_fields_known,
    unknown_field_events,
)

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard import ServeState
    from controller.ray.service.observation import ServiceObservation, ServingCluster
    from controller.ray.service.settings import ServiceSettings
    from controller.ray.service.stored_config import StoredConfig
    from controller.runtime.plan import Failure

Status = dict[str, Any]

UNMANAGED: Final = "unmanaged: not in the config that is stored on the cluster"
"""Message about an application that another client deployed."""

LONGEST_MESSAGE: Final = 2048
"""Maximum characters of what Ray says about one application or deployment."""

RECORDED_WITHIN: Final = 5.0
"""Seconds within which it is recorded from what a cluster was created, unless others intervene."""


def current_status(
    seen: ServiceObservation,
    settings: ServiceSettings,
    now: datetime,
    failures: tuple[Failure, ...] = (),
) -> StatusPatch:
    """Return the desired status if no step is due."""
    endpoints = len(seen.endpoints)
    cause = first_cause(seen, settings, failures, now)
    conditions = _conditions(seen, settings, cause, now)
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


def status_without_identity(
    seen: ServiceObservation, settings: ServiceSettings, now: datetime
) -> StatusPatch:
    """Return the desired status while it is not recorded from what a cluster was created.

    It is held back for a moment, because that is recorded at once if nobody takes it off again. The
    generation stays as it is: by it such clusters are recognised.
    """
    return replace(without_generation(current_status(seen, settings, now)), settles=RECORDED_WITHIN)


def without_generation(status: StatusPatch) -> StatusPatch:
    """Return a status that leaves the generation as it is."""
    wanted = {name: value for name, value in status.wanted.items() if name != "observedGeneration"}
    return replace(status, wanted=wanted)


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
        state["applicationStatuses"] = replacement(present, _applications(reported, cluster.config))
    return state


def _applications(state: ServeState, config: StoredConfig | None) -> Status:
    return {
        name: {
            "status": each.status,
            "message": _said(each.message)
            if config is None or name in config.applications
            else f"{UNMANAGED}; {_said(each.message)}".removesuffix("; "),
            "serveDeploymentStatuses": {
                deployment: {"status": found.status, "message": _said(found.message)}
                for deployment, found in each.deployments.items()
            },
        }
        for name, each in state.applications.items()
    }


def _said(message: str) -> str:
    return excerpt(message, characters=LONGEST_MESSAGE)


def _conditions(
    seen: ServiceObservation, settings: ServiceSettings, cause: ServiceCause, now: datetime
) -> ConditionSet:
    stored = seen.status.get("conditions", ())
    conditions = ConditionSet(stored, seen.service.metadata.generation, now)
    set_fields_known(conditions, seen.unknown_fields)
    seen.definition.set_in(conditions)
    if isinstance(seen.goal, Problem):
        conditions.set(READY, "False", "ValidationFailed", str(seen.goal))
        if seen.active is not None and seen.pending is not None:
            message = "waits for a valid specification; see Ready"
            if is_followed(seen):
                awaited = cause_of_rollout(seen, settings, seen.pending, now).message
                message = f"{shares_text(seen, settings)}; {awaited}".removesuffix("; ")
            conditions.set(UPGRADE_IN_PROGRESS, "True", "BothActivePendingClustersExist", message)
        return conditions
    _set_ready(conditions, seen, cause)
    if seen.active is not None and seen.pending is not None:
        message = f"{shares_text(seen, settings)}; {cause.message}".removesuffix("; ")
        conditions.set(UPGRADE_IN_PROGRESS, "True", "BothActivePendingClustersExist", message)
    elif seen.active is not None:
        parts = (_no_upgrade(seen, seen.active, settings), closing_text(seen, now))
        message = "; ".join(filter(None, parts))
        conditions.set(UPGRADE_IN_PROGRESS, "False", "NoPendingCluster", message)
    elif find_condition(stored, UPGRADE_IN_PROGRESS) is None:
        conditions.set(UPGRADE_IN_PROGRESS, "False", "Initializing", "")
    return conditions


def _no_upgrade(seen: ServiceObservation, active: ServingCluster, settings: ServiceSettings) -> str:
    """Return why an upgrade does not begin, or could not; empty if none is wanted."""
    if keeps_outdated_cluster(collect_facts(seen, settings)):
        return (
            f"cluster {active.name} keeps its former rayClusterConfig, as the upgrade strategy is "
            "None; delete it, or choose another upgradeStrategy.type, to have the present one"
        )
    problem = routing_problem(seen) if seen.routing.wanted else ""
    return f"incremental upgrades wait: {problem}" if problem else ""


def _set_ready(conditions: ConditionSet, seen: ServiceObservation, cause: ServiceCause) -> None:
    """Set `Ready` by the serving cluster, with the first cause of the one that is to serve."""
    before = find_condition(seen.status.get("conditions", ()), READY) or {}
    has_both = seen.active is not None and seen.pending is not None
    message = cause_of(seen, seen.active).message if seen.active and has_both else cause.message
    if count := len(seen.endpoints):
        text = f"{count} {'pod serves' if count == 1 else 'pods serve'}; {message}"
        conditions.set(READY, "True", "NonZeroServeEndpoints", text.removesuffix("; "))
    elif conditions.is_true(READY) or before.get("reason") == "ZeroServeEndpoints":
        conditions.set(READY, "False", "ZeroServeEndpoints", message)
    else:
        conditions.set(READY, "False", "Initializing", message or cause.message)


def _events(seen: ServiceObservation, cause: ServiceCause) -> tuple[Event, ...]:
    """Return warnings about the first cause and unknown fields that no condition has named yet."""
    stored = seen.status.get("conditions", ())
    events = unknown_field_events(stored, seen.unknown_fields)
    known = (find_condition(stored, kind) or {} for kind in (READY, UPGRADE_IN_PROGRESS))
    if not cause.event or any(tells(each, cause.message) for each in known):
        return events
    return (*events, Event("Warning", cause.event, "Reconcile", cause.message))
