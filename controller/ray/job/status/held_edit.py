"""The status of a RayJob whose edit is held: one condition reports it, the rest is unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import READY, find_condition, stored_message
from controller.ray.job.status.conditions import CLEANED_UP, JobConditions
from controller.runtime.plan import Event, StatusPatch

if TYPE_CHECKING:
    from datetime import datetime

    from controller.apimachinery.problem import Problem
    from controller.ray.job.observation import JobObservation


def held_edit_status(seen: JobObservation, problem: Problem, now: datetime) -> StatusPatch:
    """Name the edit in `Ready`; for an ended job, report what blocks its clean-up."""
    told, text = CLEANED_UP if seen.state.terminal else READY, str(problem)
    conditions = JobConditions(seen, now)
    conditions.set(told, "False", problem.reason, text)
    stored = find_condition(seen.status.get("conditions", ()), told) or {}
    is_new = stored.get("message") != stored_message(text)
    events = (Event("Warning", problem.reason, "Validate", text),) if is_new else ()
    return StatusPatch({"conditions": conditions.as_list()}, events=events)
