"""Reports an edit that validation refuses while what an earlier one began goes on.

A refused specification starts nothing. What had begun is followed to its end all the same: its
results, deadlines, deletions and counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import find_condition, stored_message
from controller.runtime.plan import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.apimachinery.conditions import ConditionSet
    from controller.apimachinery.problem import Problem
    from controller.kube.objects import ObjectMeta

SPEC_ACCEPTED: Final = "SpecAccepted"


def set_spec_accepted(conditions: ConditionSet, problem: Problem | None) -> None:
    """Set the condition while the specification is refused, remove it otherwise."""
    reason = "" if problem is None else problem.reason
    conditions.set_if(SPEC_ACCEPTED, "False", reason, _message(problem))


def refused_edit_events(
    problem: Problem | None, status: Mapping[str, Any], meta: ObjectMeta
) -> tuple[Event, ...]:
    """Return the event about a refused edit, once.

    Where the definition keeps no conditions, it is returned once a generation.
    """
    if problem is None:
        return ()
    conditions = status.get("conditions")
    told = find_condition(conditions or (), SPEC_ACCEPTED) or {}
    is_told = told.get("message") == stored_message(_message(problem))
    # Conditions that cannot be read are not those that the definition drops.
    is_dropped = not conditions and not problem.concerns("status")
    if is_told or (is_dropped and status.get("observedGeneration") == meta.generation):
        return ()
    return (Event("Warning", problem.reason, "Validate", _message(problem)),)


def _message(problem: Problem | None) -> str:
    if problem is None:
        return ""
    return f"the specification is not acted on, and what had begun goes on: {problem}"
