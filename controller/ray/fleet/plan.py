"""Plans the next writes of a fleet; `plan_fleet` is the entry.

The plan is a pure function of the observation and the time. It needs no memory: the next step
follows from the existing copies, so a restarted operator continues where it stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.problem import Problem
from controller.ray.fleet.held_changes import held_changes
from controller.ray.fleet.rollout import next_step
from controller.ray.fleet.status.current_status import current_status
from controller.ray.fleet.status.upgrade import seconds_to_deadline
from controller.ray.fleet.writes import create_copies, delete_copies, update_copies
from controller.runtime.plan import NOTHING, Plan, stages_of
from controller.runtime.reconcile.definitions.definition_guard import leave_as_it_is

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.fleet.observation import FleetObservation

_BLOCKED_RETRY: Final = 60.0
"""Seconds until a taken name is checked again; its release causes no event."""


def plan_fleet(seen: FleetObservation, now: datetime) -> Plan:
    """Return the plan that brings the copies one step nearer to the fleet's specification."""
    if seen.fleet.metadata.terminating:
        return NOTHING  # the garbage collector deletes the copies
    return leave_as_it_is(seen.fleet, seen.definition) or _plan_copies(seen, now)


def _plan_copies(seen: FleetObservation, now: datetime) -> Plan:
    status = current_status(seen, now)
    if isinstance(seen.goal, Problem) or held_changes(seen):
        return Plan(status=status)
    requeue_after = _requeue_after(seen, now)
    if seen.has_pending_writes or seen.unreadable:
        return Plan(status=status, requeue_after=requeue_after)
    step = next_step(seen)
    return Plan(
        stages=stages_of(create_copies(seen, step)),
        independent=(*delete_copies(seen, step), *update_copies(seen, step)),
        status=status,
        requeue_after=requeue_after,
    )


def _requeue_after(seen: FleetObservation, now: datetime) -> float | None:
    """Return the seconds until something may have changed without an event."""
    waits = [seconds_to_deadline(seen, now)]
    if seen.name_conflicts or seen.unreadable:
        waits.append(_BLOCKED_RETRY)
    return min((each for each in waits if each is not None), default=None)
