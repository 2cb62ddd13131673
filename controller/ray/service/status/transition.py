"""The single write of a step of the rollout: names, capacities, weights and conditions together.

Its precondition is the observed resourceVersion, so all of it happens exactly once or not at all,
and what follows from it (a cluster, a PUT, a service) is planned from the stored status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import ConditionSet, is_true, rfc3339
from controller.ray.api.rayservice import RAYSERVICES, UpgradeType
from controller.ray.diagnosis.authors import deleted_by_others
from controller.ray.service.condition_types import ROLLBACK_IN_PROGRESS, UPGRADE_IN_PROGRESS
from controller.ray.service.observation import ACTIVE, PENDING
from controller.ray.service.rollout.shares import FULL
from controller.ray.service.rollout.steps import (
    Change,
    SetActiveCapacity,
    SetPendingCapacity,
    SetPendingWeight,
)
from controller.runtime.plan import Event
from controller.runtime.reconcile.status.commit import status_commit

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.service.observation import ServiceObservation
    from controller.ray.service.rollout.facts import RolloutFacts
    from controller.ray.service.rollout.steps import Move
    from controller.runtime.plan import MergePatch

Status = dict[str, Any]

_UNDIVIDED: Final = dict.fromkeys(
    ("targetCapacity", "trafficRoutedPercent", "lastTrafficMigratedTime")
)
"""Patch of a cluster with full capacity, without a share of the requests."""


def transition_patch(
    seen: ServiceObservation, facts: RolloutFacts, step: Change | Move, now: datetime
) -> MergePatch:
    """Return the status write that stores a step."""
    meta = seen.service.metadata
    conditions = ConditionSet(seen.status.get("conditions", ()), meta.generation, now)
    changes = _changes(seen, facts, step, now)
    _set_conditions(conditions, seen, step)
    status = {**changes, "conditions": conditions.as_list(), "observedGeneration": meta.generation}
    return status_commit(RAYSERVICES, meta, "rollout", status, _event(seen, step))


def _changes(  # noqa: PLR0911  one for each step
    seen: ServiceObservation, facts: RolloutFacts, step: Change | Move, now: datetime
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
            moved = {"lastTrafficMigratedTime": rfc3339(now)}
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
        case _:
            found = _change_event(seen, step, active, pending)
    reason, note = found
    return Event("Normal", reason, "Update", note)


def _deleted(seen: ServiceObservation) -> str:
    """Return a sentence about the active cluster, which the operator itself never deletes."""
    assert seen.active is not None
    what = f"RayCluster {seen.active.name}, which served, is replaced by {seen.next_name}: it"
    return deleted_by_others(seen.service.metadata, what)


def _change_event(  # noqa: PLR0911  one for each change
    seen: ServiceObservation, step: Change, active: str, pending: str
) -> tuple[str, str]:
    """Return reason and note of the event about a change of roles."""
    rolling_back = is_true(seen.status.get("conditions", ()), ROLLBACK_IN_PROGRESS)
    match step:
        case Change.PREPARE:
            purpose = f"replace cluster {active}" if active else "serve"
            return "PreparedRayCluster", f"Cluster {seen.next_name} is to {purpose}"
        case Change.REPLACE_PENDING:
            note = f"Cluster {seen.next_name} is to serve instead of cluster {pending}"
            return "PreparedRayCluster", note
        case Change.PROMOTE:
            return "PromotedRayCluster", f"Cluster {pending} serves now"
        case Change.DROP_PENDING if rolling_back:
            note = f"Cluster {active} has everything back from cluster {pending}"
            return "RollbackCompleted", note
        case Change.DROP_PENDING:
            return "DroppedRayCluster", f"Gave up cluster {pending}"
        case Change.STOP_DIVIDING:
            note = f"No gateway exists or is requested: cluster {pending} takes over at once"
            return "StoppedDividingTraffic", note
        case Change.BEGIN_ROLLBACK:
            note = f"Cluster {pending} hands everything back to cluster {active}"
            return "RollbackStarted", note
        case _:
            return "UpgradeResumed", f"The upgrade to cluster {pending} goes on"
