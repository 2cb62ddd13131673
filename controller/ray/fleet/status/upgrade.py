"""The progress of replacing outdated copies: the condition `Upgrading`, and its deadline.

A resumed upgrade has its whole time again, because the condition's status changes when it is paused
and when it is resumed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from controller.apimachinery.conditions import counted_from, find_condition, time_of
from controller.ray.fleet.condition_types import (
    PAUSED,
    ROLLING,
    STUCK,
    UP_TO_DATE,
    UPGRADING,
)
from controller.runtime.plan import Event

if TYPE_CHECKING:
    from datetime import datetime

    from controller.apimachinery.conditions import ConditionStatus
    from controller.ray.fleet.copies import Copy
    from controller.ray.fleet.observation import FleetObservation


def outdated_copies(seen: FleetObservation) -> list[Copy]:
    """Return the copies of a valid fleet that are still to be replaced."""
    return [copy for copy in seen.wanted if copy.stays and not copy.up_to_date]


def upgrade_state(seen: FleetObservation, now: datetime) -> tuple[ConditionStatus, str]:
    """Return status and reason of the condition `Upgrading` of a valid fleet."""
    if not _is_under_way(seen):
        return "False", UP_TO_DATE
    if _is_paused(seen):
        return "Unknown", PAUSED
    return "True", ROLLING if _seconds_left(seen, now) > 0 else STUCK


def seconds_to_deadline(seen: FleetObservation, now: datetime) -> float | None:
    """Return the seconds until an upgrade without progress counts as stuck; None if idle."""
    if not _is_under_way(seen) or _is_paused(seen):
        return None
    left = _seconds_left(seen, now)
    return left if left > 0 else None


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
    before = find_condition(seen.conditions, UPGRADING) or {}
    if before.get("status") not in {"True", "Unknown"}:
        return False
    return sum(map(seen.is_available, seen.wanted)) < seen.desired


def _is_paused(seen: FleetObservation) -> bool:
    return seen.valid_goal.spec.strategy.paused and bool(outdated_copies(seen))


def _seconds_left(seen: FleetObservation, now: datetime) -> float:
    """Return the seconds until the deadline, from the last progress; negative if it has passed."""
    moments = [moment for copy in seen.wanted if copy.up_to_date for moment in copy.progressed]
    deadline = timedelta(seconds=seen.valid_goal.spec.strategy.progress_deadline_seconds)
    moves = (
        counted_from(each, seen.clock_steady_since, now)
        for each in (_rolling_since(seen, now), *moments)
    )
    return (max(moves) + deadline - now).total_seconds()


def _rolling_since(seen: FleetObservation, now: datetime) -> datetime:
    before = find_condition(seen.conditions, UPGRADING) or {}
    since = time_of(before.get("lastTransitionTime"))
    return since if since and before.get("status") == "True" else now
