"""The status of a fleet: conditions, the first cause, its upgrade, and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import chain
from typing import Any, Final

from msgspec import Struct
from prometheus_client.core import Metric

from controller.apimachinery.conditions import (
    OBSERVATION_IN_DOUBT,
    READY,
    ConditionSet,
    ConditionStatus,
    counted_from,
    find_condition,
    tells,
    time_of,
    verdicts,
)
from controller.apimachinery.custom_object import mapping, status_of
from controller.apimachinery.patches import difference
from controller.apimachinery.validation import Problem
from controller.ray.api.rayclusterfleet import RayClusterFleet
from controller.ray.diagnosis.writes import failure_cause
from controller.ray.fleet.observe import Copy, FleetObservation
from controller.ray.pods.hashes import is_outdated
from controller.runtime.definitions import REMEDY, set_fields_known, unknown_field_events
from controller.runtime.metrics import ObjectCollector, identity, object_gauge
from controller.runtime.plan import Event, Failure, StatusPatch

# Types and reasons of a fleet's conditions.

UPGRADING: Final = "Upgrading"
"""Condition type: True while outdated copies are being replaced, Unknown while paused."""

CHANGES_HELD: Final = "ChangesHeld"
"""Condition type: present while an unexplained replacement or deletion is held."""

ROLLING: Final = "Rolling"
STUCK: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "Paused"
UP_TO_DATE: Final = "UpToDate"


# Unexplained changes, which are held and reported instead of carried out.
#
# The generation distinguishes an edit from a definition, or a version of the operator, that reads
# the same specification in another way. A user's edit releases held changes.


def held_changes(seen: FleetObservation) -> str:
    """Return why copies are neither replaced nor deleted; empty if nothing is held."""
    generation = seen.fleet.metadata.generation
    known = seen.condition(UPGRADING).get("observedGeneration") == generation
    if isinstance(seen.goal, Problem) or not known:
        return ""
    before = seen.status.get("desiredReplicas")
    if isinstance(before, int) and seen.desired < before:
        doubt = f"asked for {before} copies and now asks for {seen.desired}"
    elif is_outdated(seen.status.get("templateHash"), seen.goal.template_hash):
        doubt = "has another template now"
    else:
        return ""
    return (
        f"generation {generation} of the specification {doubt}, without an edit. {REMEDY}; if "
        "copies are to be replaced or deleted, edit the specification"
    )


# The progress of replacing outdated copies: the condition `Upgrading`, and its deadline.
#
# A resumed upgrade has its whole time again, because the condition's status changes when it is
# paused and when it is resumed.


def outdated_copies(seen: FleetObservation) -> list[Copy]:
    """Return the copies of a valid fleet that are still to be replaced."""
    return [copy for copy in seen.wanted if copy.stays and not copy.up_to_date]


def upgrade_progress(seen: FleetObservation) -> tuple[ConditionStatus, str, float | None]:
    """Return status and reason of the condition `Upgrading` of a valid fleet, and when it ends.

    That is in how many seconds an upgrade without progress counts as stuck; None if it does not.
    """
    if not _is_under_way(seen):
        return "False", UP_TO_DATE, None
    if seen.valid_goal.spec.strategy.paused and outdated_copies(seen):
        return "Unknown", PAUSED, None
    left = _seconds_left(seen)
    return ("True", ROLLING, left) if left > 0 else ("True", STUCK, None)


def upgrade_event(before: str, reason: str, message: str) -> tuple[Event, ...]:
    """Return the event about a change of the condition's reason; none if nothing is new."""
    if reason == before:
        return ()
    match reason:
        case "Paused":
            told = "UpgradePaused"
        case "ProgressDeadlineExceeded":
            return (Event("Warning", "UpgradeStuck", "Update", message),)
        case "Rolling" if before == PAUSED:
            told = "UpgradeResumed"
        case "Rolling" if before != STUCK:
            told = "UpgradeStarted"
        case "UpToDate" if before:
            told = "UpgradeComplete"
        case _:
            return ()
    return (Event("Normal", told, "Update", message),)


def _is_under_way(seen: FleetObservation) -> bool:
    """Return whether copies are outdated, or the last replacements are not ready yet."""
    if outdated_copies(seen):
        return True
    if seen.condition(UPGRADING).get("status") not in {"True", "Unknown"}:
        return False
    return sum(map(seen.is_available, seen.wanted)) < seen.desired


def _seconds_left(seen: FleetObservation) -> float:
    """Return the seconds until the deadline, from the last progress; negative if it has passed."""
    stored = seen.condition(UPGRADING)
    rolling = stored.get("status") == "True" and time_of(stored.get("lastTransitionTime"))
    moments = [moment for copy in seen.wanted if copy.up_to_date for moment in copy.progressed]
    deadline = timedelta(seconds=seen.valid_goal.spec.strategy.progress_deadline_seconds)
    moves = (
        counted_from(each, seen.clock_steady_since, seen.now)
        for each in (rolling or seen.now, *moments)
    )
    return (max(moves) + deadline - seen.now).total_seconds()


# The first cause for which a fleet, or its upgrade, is not as specified.

_NOT_READY: Final = "ClustersNotReady"


class FirstCause(Struct, frozen=True):
    """A cause for which a fleet is not as specified, or none.

    Attributes:
        message: a sentence; empty if there is no cause.
        reason: reason of the condition `Ready`, if the cause keeps the fleet from being ready.
        event: reason of the Warning event about it; empty for no event.
    """

    message: str = ""
    reason: str = _NOT_READY
    event: str = ""


def first_cause(seen: FleetObservation, failures: tuple[Failure, ...]) -> FirstCause:
    """Return the first cause: a problem of the fleet, then of a write, then of a copy."""
    if isinstance(seen.goal, Problem):
        return FirstCause(str(seen.goal), seen.goal.reason, seen.goal.reason)
    refused = (each for each in failures if not each.may_resolve)
    failure = next(chain(refused, seen.refused_creates), None)  # now, or earlier
    if failure is not None:
        found = failure_cause(failure, has_head=True)
        return FirstCause(found.message, found.reason.name, found.event)
    return _of_names(seen) or _of_copies(seen)


def _of_names(seen: FleetObservation) -> FirstCause | None:
    for name, conflict in seen.name_conflicts.items():
        message = (
            f"RayCluster {name} cannot be created, because there is one of this name that "
            f"{conflict}: delete it"
        )
        return FirstCause(message, "NameTaken", "FailedToCreateRayCluster")
    for name, reason in seen.unreadable.items():
        message = f"no copy is created or deleted while RayCluster {name} cannot be read: {reason}"
        return FirstCause(message, "UnreadableCopy", "UnreadableCopy")
    return None


def _of_copies(seen: FleetObservation) -> FirstCause:
    """Return the cause of the first copy with a problem, those of the present template first."""
    waiting = [copy for copy in seen.wanted if copy.stays and not seen.is_available(copy)]
    for copy in sorted(waiting, key=lambda copy: not copy.up_to_date):
        state = "suspended yet" if seen.valid_goal.spec.suspended else "ready"
        return FirstCause(f"RayCluster {copy.name} is not {state}: {copy.message}")
    present = {copy.index for copy in seen.wanted if copy.stays}
    for copy in seen.copies:
        if not copy.stays and (copy.index not in present or copy.index >= seen.desired):
            return FirstCause(f"RayCluster {copy.name} is being deleted")
    missing = [index for index in range(seen.desired) if index not in present]
    return FirstCause(f"copy {missing[0]} is being created") if missing else FirstCause()


# The status of a fleet.

Status = dict[str, Any]

_LONGEST_MESSAGE: Final = 256
"""Maximum characters about one copy, since there may be many."""

_SETTLES: Final = 1.0
"""Seconds for which changed messages are held back: all copies often change together."""


def current_status(seen: FleetObservation, failures: tuple[Failure, ...] = ()) -> StatusPatch:
    """Return the desired status."""
    cause = first_cause(seen, failures)
    conditions = ConditionSet(seen.conditions, seen.fleet.metadata.generation, seen.now)
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
        _set_upgrading(conditions, seen, cause)
    held = held_changes(seen)
    conditions.set_if(CHANGES_HELD, "True", "NotExplained", held)
    if not isinstance(seen.goal, Problem) and not held:
        wanted |= {"desiredReplicas": seen.desired, "templateHash": seen.goal.template_hash}
    wanted["conditions"] = conditions.as_list()
    events = tuple(_events(seen, cause, held, wanted))
    changed = difference(seen.status, wanted).keys() - {"clusters", "conditions"}
    urgent = bool(events or changed) or verdicts(seen.status) != verdicts(wanted)
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


def _set_upgrading(conditions: ConditionSet, seen: FleetObservation, cause: FirstCause) -> None:
    status, reason, _ = upgrade_progress(seen)
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
    if held and not seen.condition(CHANGES_HELD):
        yield Event("Warning", CHANGES_HELD, "Reconcile", held)
    if cause.event and not any(tells(each, cause.message) for each in seen.conditions):
        action = "Validate" if isinstance(seen.goal, Problem) else "Reconcile"
        yield Event("Warning", cause.event, action, cause.message)
    before = seen.condition(UPGRADING)
    after = find_condition(wanted["conditions"], UPGRADING) or {}
    if after:
        yield from upgrade_event(
            before.get("reason", ""), after.get("reason", ""), after.get("message", "")
        )


# Metrics of fleets, computed from the cache when scraped.
#
# Reconciles count nothing, so a deleted fleet leaves no metrics behind.

_COUNTS: Final = {
    "replicas": ("manta_fleet_replicas", "Copies of a RayClusterFleet that exist and stay"),
    "readyReplicas": ("manta_fleet_ready_replicas", "Indexes of a RayClusterFleet that are ready"),
    "updatedReplicas": (
        "manta_fleet_updated_replicas",
        "Copies of a RayClusterFleet that were created from its present template",
    ),
}


class FleetCollector(ObjectCollector["RayClusterFleet"]):
    """Collects `manta_fleet_*`."""

    def metrics(self, current: Iterable[RayClusterFleet], /) -> Iterable[Metric]:
        """Yield the samples of every fleet."""
        counts = {field: object_gauge(*described) for field, described in _COUNTS.items()}
        desired = object_gauge(
            "manta_fleet_desired_replicas", "Copies that a RayClusterFleet asks for"
        )
        upgrade = object_gauge(
            "manta_fleet_upgrade",
            "1 while outdated copies of a RayClusterFleet are left, by the reason of its condition "
            "Upgrading: Rolling, Paused or ProgressDeadlineExceeded",
            "reason",
        )
        for fleet in current:
            own, status = identity(fleet.metadata), status_of(fleet)
            wanted = mapping(fleet.spec).get("replicas", 1)
            if isinstance(wanted, int):
                desired.add_metric(own, wanted)
            for field, family in counts.items():
                family.add_metric(own, status.get(field) or 0)
            found = find_condition(status.get("conditions", ()), UPGRADING) or {}
            reason = found.get("reason", UP_TO_DATE)
            if reason != UP_TO_DATE:
                upgrade.add_metric([*own, reason], 1)
        return (desired, *counts.values(), upgrade)
