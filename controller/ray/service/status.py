"""The status of a RayService: what it is while a step lasts, and what a transition stores."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from controller.apimachinery.conditions import (
    READY,
    ConditionSet,
    rfc3339,
    tells,
)
from controller.apimachinery.custom_object import mapping, status_of
from controller.apimachinery.patches import difference, replacement
from controller.apimachinery.redaction import excerpt
from controller.apimachinery.validation import Problem
from controller.ray.api.rayservice import (
    ROLLBACK_IN_PROGRESS,
    UPGRADE_IN_PROGRESS,
    UpgradeType,
)
from controller.ray.dashboard.serve import ServeState
from controller.ray.diagnosis.writes import deleted_by_others
from controller.ray.service.closing import closing_text
from controller.ray.service.facts import collect_facts, is_followed, shares_text
from controller.ray.service.identity import StoredConfig
from controller.ray.service.observation import ACTIVE, PENDING, ServiceObservation, ServingCluster
from controller.ray.service.proxies import serve_state
from controller.ray.service.readiness import ServiceCause, cause_of, cause_of_rollout, first_cause
from controller.ray.service.rollout import (
    FULL,
    Change,
    Move,
    RolloutFacts,
    SetActiveCapacity,
    SetPendingCapacity,
    SetPendingWeight,
    keeps_outdated_cluster,
)
from controller.ray.service.traffic import routing_problem
from controller.runtime.definitions import set_fields_known, unknown_field_events
from controller.runtime.plan import Event, Failure, MergePatch, StatusPatch

# The status between the steps of the rollout: the reports of Ray and the clusters.

Status = dict[str, Any]

UNMANAGED: Final = "unmanaged: not in the config that is stored on the cluster"
"""Message about an application that another client deployed."""

LONGEST_MESSAGE: Final = 2048
"""Maximum characters of what Ray says about one application or deployment."""

RECORDED_WITHIN: Final = 5.0
"""Seconds within which it is recorded from what a cluster was created, unless others intervene."""


def current_status(seen: ServiceObservation, failures: tuple[Failure, ...] = ()) -> StatusPatch:
    """Return the desired status if no step is due."""
    endpoints = len(seen.endpoints)
    cause = first_cause(seen, failures)
    conditions = _conditions(seen, cause)
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
        wanted,
        urgent=urgent,
        interval=3.0,
        events=events,
        stamps={"lastUpdateTime": rfc3339(seen.now)},
    )


def status_without_identity(seen: ServiceObservation) -> StatusPatch:
    """Return the desired status while it is not recorded from what a cluster was created.

    It is held back for a moment, because that is recorded at once if nobody takes it off again. The
    generation stays as it is: by it such clusters are recognised.
    """
    return replace(without_generation(current_status(seen)), settles=RECORDED_WITHIN)


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


def _conditions(seen: ServiceObservation, cause: ServiceCause) -> ConditionSet:
    conditions = seen.condition_set()
    set_fields_known(conditions, seen.unknown_fields)
    seen.definition.set_in(conditions)
    is_valid = not isinstance(seen.goal, Problem)
    if is_valid:
        _set_ready(conditions, seen, cause)
    else:
        conditions.set(READY, "False", "ValidationFailed", str(seen.goal))
    if seen.active is not None and seen.pending is not None:
        message = "waits for a valid specification; see Ready"
        if is_valid or is_followed(seen):
            awaited = cause if is_valid else cause_of_rollout(seen, seen.pending)
            message = f"{shares_text(seen)}; {awaited.message}".removesuffix("; ")
        conditions.set(UPGRADE_IN_PROGRESS, "True", "BothActivePendingClustersExist", message)
    elif is_valid and seen.active is not None:
        parts = (_no_upgrade(seen, seen.active), closing_text(seen))
        message = "; ".join(filter(None, parts))
        conditions.set(UPGRADE_IN_PROGRESS, "False", "NoPendingCluster", message)
    elif is_valid and not seen.condition(UPGRADE_IN_PROGRESS):
        conditions.set(UPGRADE_IN_PROGRESS, "False", "Initializing", "")
    return conditions


def _no_upgrade(seen: ServiceObservation, active: ServingCluster) -> str:
    """Return why an upgrade does not begin, or could not; empty if none is wanted."""
    if keeps_outdated_cluster(collect_facts(seen)):
        return (
            f"cluster {active.name} keeps its former rayClusterConfig, as the upgrade strategy is "
            "None; delete it, or choose another upgradeStrategy.type, to have the present one"
        )
    problem = routing_problem(seen) if seen.routing.wanted else ""
    return f"incremental upgrades wait: {problem}" if problem else ""


def _set_ready(conditions: ConditionSet, seen: ServiceObservation, cause: ServiceCause) -> None:
    """Set `Ready` by the serving cluster, with the first cause of the one that is to serve."""
    has_both = seen.active is not None and seen.pending is not None
    message = cause_of(seen, seen.active).message if seen.active and has_both else cause.message
    if count := len(seen.endpoints):
        text = f"{count} {'pod serves' if count == 1 else 'pods serve'}; {message}"
        conditions.set(READY, "True", "NonZeroServeEndpoints", text.removesuffix("; "))
    elif seen.is_true(READY) or seen.condition(READY).get("reason") == "ZeroServeEndpoints":
        conditions.set(READY, "False", "ZeroServeEndpoints", message)
    else:
        conditions.set(READY, "False", "Initializing", message or cause.message)


def _events(seen: ServiceObservation, cause: ServiceCause) -> tuple[Event, ...]:
    """Return warnings about the first cause and unknown fields that no condition has named yet."""
    events = unknown_field_events(seen.conditions, seen.unknown_fields)
    known = (seen.condition(kind) for kind in (READY, UPGRADE_IN_PROGRESS))
    if not cause.event or any(tells(each, cause.message) for each in known):
        return events
    return (*events, Event("Warning", cause.event, "Reconcile", cause.message))


# The single write of a step of the rollout: names, capacities, weights and conditions together.
#
# What follows from it (a cluster, a PUT, a service) is planned from the stored status.

_UNDIVIDED: Final = dict.fromkeys(
    ("targetCapacity", "trafficRoutedPercent", "lastTrafficMigratedTime")
)
"""Patch of a cluster with full capacity, without a share of the requests."""


def transition_patch(
    seen: ServiceObservation, facts: RolloutFacts, step: Change | Move
) -> MergePatch:
    """Return the status write that stores a step."""
    conditions = seen.condition_set()
    _set_conditions(conditions, seen, step)
    changes = _changes(seen, facts, step)
    return seen.commit("rollout", conditions, changes, _event(seen, step))


def _changes(  # noqa: PLR0911  one for each step
    seen: ServiceObservation, facts: RolloutFacts, step: Change | Move
) -> Status:
    match step:
        case Change.PREPARE | Change.REPLACE_PENDING:
            return _prepared(seen, facts)
        case Change.PROMOTE:
            return {ACTIVE: _promoted(seen) | _alone(facts), PENDING: None}
        case Change.DROP_PENDING:
            return {ACTIVE: _UNDIVIDED | _alone(facts), PENDING: None}
        case Change.STOP_DIVIDING:
            return {ACTIVE: _UNDIVIDED, PENDING: _UNDIVIDED}
        case SetActiveCapacity(percent):
            return {ACTIVE: {"targetCapacity": percent}}
        case SetPendingCapacity(percent):
            return {PENDING: {"targetCapacity": percent}}
        case SetPendingWeight(percent):
            moved = {"lastTrafficMigratedTime": rfc3339(seen.now)}
            return {
                ACTIVE: {"trafficRoutedPercent": FULL - percent, **moved},
                PENDING: {"trafficRoutedPercent": percent, **moved},
            }
        case _:
            return {}


def _prepared(seen: ServiceObservation, facts: RolloutFacts) -> Status:
    """Return a new pending cluster, without what the status has about another one."""
    pending: Status = dict.fromkeys(seen.recorded(PENDING)) | {"rayClusterName": seen.next_name}
    if facts.strategy is not UpgradeType.INCREMENTAL or not facts.active.exists:
        return {PENDING: pending}
    full = {"targetCapacity": FULL, "trafficRoutedPercent": FULL}
    return {ACTIVE: full, PENDING: pending | {"targetCapacity": 0, "trafficRoutedPercent": 0}}


def _promoted(seen: ServiceObservation) -> Status:
    """Return the pending cluster as the active one, at its full capacity."""
    kept = {key: value for key, value in seen.recorded(PENDING).items() if key not in _UNDIVIDED}
    return dict.fromkeys(seen.recorded(ACTIVE)) | kept


def _alone(facts: RolloutFacts) -> Status:
    """Return what KubeRay reports of the only cluster behind a route: what clients wait for."""
    incremental = facts.strategy is UpgradeType.INCREMENTAL
    return {"trafficRoutedPercent": FULL} if incremental else {}


def _set_conditions(
    conditions: ConditionSet, seen: ServiceObservation, step: Change | Move
) -> None:
    match step:
        case Change.PREPARE if seen.active is not None:
            message = f"cluster {seen.next_name} is to replace {seen.active.name}"
            if not seen.active.exists:
                message = _deleted(seen)
            conditions.set(UPGRADE_IN_PROGRESS, "True", "BothActivePendingClustersExist", message)
        case Change.PROMOTE | Change.DROP_PENDING:
            conditions.remove(ROLLBACK_IN_PROGRESS)
            conditions.set(UPGRADE_IN_PROGRESS, "False", "NoPendingCluster", "")
        case Change.BEGIN_ROLLBACK:
            message = "the specification changed: the active cluster takes everything back"
            conditions.set(ROLLBACK_IN_PROGRESS, "True", "DesiredClusterSpecChanged", message)
        case Change.RESUME_UPGRADE | Change.STOP_DIVIDING:
            conditions.remove(ROLLBACK_IN_PROGRESS)
        case _:
            pass


def _event(seen: ServiceObservation, step: Change | Move) -> Event:
    """Return the event about a step; the reasons are KubeRay's where it has one."""
    pending = seen.pending.name if seen.pending is not None else ""
    active = seen.active.name if seen.active is not None else ""
    match step:
        case SetActiveCapacity(percent):
            found = "UpdatedServeTargetCapacity", f"Capacity of cluster {active}: {percent} %"
        case SetPendingCapacity(percent):
            found = "UpdatedServeTargetCapacity", f"Capacity of cluster {pending}: {percent} %"
        case SetPendingWeight(percent):
            found = "MigratedTraffic", f"{percent} % of the requests go to cluster {pending}"
        case Change.RESUME_UPGRADE if seen.active is None or not seen.active.exists:
            note = f"Cluster {active} is gone: the upgrade to cluster {pending} goes on"
            return Event("Warning", "RollbackImpossible", "Update", note)
        case Change.PREPARE if seen.active is not None and not seen.active.exists:
            return Event("Warning", "RayClusterDeleted", "Update", _deleted(seen))
        case Change.DROP_PENDING if seen.is_true(ROLLBACK_IN_PROGRESS):
            note = f"Cluster {active} has everything back from cluster {pending}"
            found = "RollbackCompleted", note
        case _:
            reason, text = _CHANGES[step]
            purpose = f"replace cluster {active}" if active else "serve"
            names = {"active": active, "pending": pending, "next": seen.next_name}
            found = reason, text.format(purpose=purpose, **names)
    return Event("Normal", found[0], "Update", found[1])


_CHANGES: Final = {
    Change.PREPARE: ("PreparedRayCluster", "Cluster {next} is to {purpose}"),
    Change.REPLACE_PENDING: (
        "PreparedRayCluster",
        "Cluster {next} is to serve instead of cluster {pending}",
    ),
    Change.PROMOTE: ("PromotedRayCluster", "Cluster {pending} serves now"),
    Change.DROP_PENDING: ("DroppedRayCluster", "Gave up cluster {pending}"),
    Change.STOP_DIVIDING: (
        "StoppedDividingTraffic",
        "No gateway exists or is requested: cluster {pending} takes over at once",
    ),
    Change.BEGIN_ROLLBACK: (
        "RollbackStarted",
        "Cluster {pending} hands everything back to cluster {active}",
    ),
    Change.RESUME_UPGRADE: ("UpgradeResumed", "The upgrade to cluster {pending} goes on"),
}
"""Reason and note of the event about a change of roles."""


def _deleted(seen: ServiceObservation) -> str:
    """Return a sentence about the active cluster, which the operator itself never deletes."""
    assert seen.active is not None
    what = f"RayCluster {seen.active.name}, which served, is replaced by {seen.next_name}: it"
    return deleted_by_others(seen.service.metadata, what)
