"""The status of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import (
    OBSERVATION_IN_DOUBT,
    READY,
    ConditionSet,
    find_condition,
    tells,
)
from controller.apimachinery.patches import difference
from controller.apimachinery.problem import Problem
from controller.ray.fleet.condition_types import CHANGES_HELD, UPGRADING
from controller.ray.fleet.held_changes import held_changes
from controller.ray.fleet.status.first_cause import first_cause
from controller.ray.fleet.status.upgrade import outdated_copies, upgrade_event, upgrade_state
from controller.runtime.plan import Event, StatusPatch
from controller.runtime.reconcile.definitions.unknown_fields import (
    set_fields_known,
    unknown_field_events,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from controller.ray.fleet.copies import Copy
    from controller.ray.fleet.observation import FleetObservation
    from controller.ray.fleet.status.first_cause import FirstCause
    from controller.runtime.plan import Failure

Status = dict[str, Any]

_LONGEST_MESSAGE: Final = 256
"""Maximum characters about one copy, since there may be many."""

_SETTLES: Final = 1.0
"""Seconds for which changed messages are held back: all copies often change together."""


def current_status(
    seen: FleetObservation, now: datetime, failures: tuple[Failure, ...] = ()
) -> StatusPatch:
    """Return the desired status."""
    cause = first_cause(seen, failures)
    conditions = ConditionSet(seen.conditions, seen.fleet.metadata.generation, now)
    set_fields_known(conditions, seen.unknown_fields)
    seen.definition.set_in(conditions)
    doubt = "; ".join(seen.consistency_warnings)
    conditions.set_if(OBSERVATION_IN_DOUBT, "True", "CacheDisagrees", doubt)
    wanted: Status = {"observedGeneration": seen.fleet.metadata.generation}
    if isinstance(seen.goal, Problem):
        conditions.set(READY, "False", cause.reason, cause.message)
        wanted |= _observed_counts(seen)
    else:
        wanted |= _counts(seen)
        _set_ready(conditions, seen, cause)
        _set_upgrading(conditions, seen, cause, now)
    held = held_changes(seen)
    conditions.set_if(CHANGES_HELD, "True", "NotExplained", held)
    if not isinstance(seen.goal, Problem) and not held:
        wanted |= {"desiredReplicas": seen.desired, "templateHash": str(seen.goal.template_hash)}
    wanted["conditions"] = conditions.as_list()
    events = tuple(_events(seen, cause, held, wanted))
    changed = difference(seen.status, wanted).keys() - {"clusters", "conditions"}
    urgent = bool(events or changed) or _verdicts(seen.status) != _verdicts(wanted)
    settles = 0.0 if urgent else _SETTLES
    return StatusPatch(wanted, urgent=urgent, events=events, settles=settles)


def _counts(seen: FleetObservation) -> Status:
    ready = {copy.index for copy in seen.wanted if copy.ready}
    return _observed_counts(seen) | {
        "readyReplicas": len(ready),
        "updatedReplicas": len(_updated(seen)),
    }


def _observed_counts(seen: FleetObservation) -> Status:
    """Return what the copies say whatever the specification has become."""
    return {
        "replicas": sum(copy.stays for copy in seen.copies),
        "readyReplicas": len({copy.index for copy in seen.copies if copy.ready}),
        "clusters": [_entry(copy) for copy in seen.copies] or None,
    }


def _updated(seen: FleetObservation) -> list[Copy]:
    return [copy for copy in seen.wanted if copy.stays and copy.up_to_date]


def _entry(copy: Copy) -> Status:
    entry: Status = {
        "index": copy.index,
        "name": copy.name,
        "updated": copy.up_to_date,
        "ready": copy.ready,
    }
    return entry if copy.ready else entry | {"message": copy.message[:_LONGEST_MESSAGE]}


def _set_ready(conditions: ConditionSet, seen: FleetObservation, cause: FirstCause) -> None:
    """Set `Ready`: True while each index has a ready copy, of whichever template."""
    available = {copy.index for copy in seen.wanted if seen.is_available(copy)}
    count = f"{len(available)} of {seen.desired} copies are"
    if seen.valid_goal.spec.suspended:
        message = f"{count} suspended; {cause.message}".removesuffix("; ")
        conditions.set(READY, "False", "Suspended", message)
    elif len(available) == seen.desired:
        message = f"{count} ready; {cause.message or _contested(seen)}".removesuffix("; ")
        conditions.set(READY, "True", "AllClustersReady", message)
    else:
        message = f"{count} ready; {cause.message}".removesuffix("; ")
        conditions.set(READY, "False", cause.reason, message)


def _contested(seen: FleetObservation) -> str:
    """Return the first copy whose fields another writer keeps changing; empty if none."""
    copies = (copy for copy in seen.wanted if copy.stays and copy.contested)
    return next((f"RayCluster {copy.name}: {copy.contested}" for copy in copies), "")


def _set_upgrading(
    conditions: ConditionSet, seen: FleetObservation, cause: FirstCause, now: datetime
) -> None:
    status, reason = upgrade_state(seen, now)
    message = "no copy is outdated"
    if status != "False":
        message = (
            f"{len(_updated(seen))} of {seen.desired} copies are up to date, "
            f"{len(outdated_copies(seen))} outdated ones are left; {cause.message}"
        ).removesuffix("; ")
    conditions.set(UPGRADING, status, reason, message)


def _events(
    seen: FleetObservation, cause: FirstCause, held: str, wanted: Status
) -> Iterator[Event]:
    """Yield events about what no stored condition has reported yet."""
    yield from unknown_field_events(seen.conditions, seen.unknown_fields)
    if held and find_condition(seen.conditions, CHANGES_HELD) is None:
        yield Event("Warning", CHANGES_HELD, "Reconcile", held)
    if cause.event and not any(tells(each, cause.message) for each in seen.conditions):
        action = "Validate" if isinstance(seen.goal, Problem) else "Reconcile"
        yield Event("Warning", cause.event, action, cause.message)
    before = find_condition(seen.conditions, UPGRADING) or {}
    after = find_condition(wanted["conditions"], UPGRADING) or {}
    if after:
        yield from upgrade_event(
            before.get("reason", ""), after.get("reason", ""), after.get("message", "")
        )


def _verdicts(status: Status) -> list[tuple[Any, ...]]:
    """Return types, statuses and reasons: changed messages alone are not urgent."""
    return [
        (each.get("type"), each.get("status"), each.get("reason"))
        for each in status.get("conditions") or ()
    ]
