"""The events about a cluster's readiness: one for each new first cause, and one for its end.

The stored condition `Ready` shows what was reported before, so a restart repeats nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import READY, find_condition
from controller.ray.diagnosis.reasons import (
    DELETION_HELD,
    REQUIRED_OBJECT_MISSING,
    Severity,
    component_of,
)
from controller.runtime.plan import Event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.ray.diagnosis.reasons import Cause

BECAME_READY: Final = "RayClusterReady"


def readiness_events(
    conditions: Sequence[Mapping[str, Any]], cause: Cause | None
) -> tuple[Event, ...]:
    """Return the events for the change from the stored conditions to this first cause.

    A cause that only takes time has none; missing objects of users are reported with the children,
    held deletions with their own condition.
    """
    ready = find_condition(conditions, READY) or {}
    if cause is None:
        if ready.get("status") == "True":
            return ()
        return (Event("Normal", BECAME_READY, "Reconcile", "The head and all workers are ready"),)
    reported = ready.get("status") == "False" and (
        (ready.get("reason"), component_of(str(ready.get("message"))))
        == (cause.reason.name, cause.component)
    )
    if (
        reported
        or cause.reason in {REQUIRED_OBJECT_MISSING, DELETION_HELD}
        or cause.reason.severity is Severity.IN_PROGRESS
    ):
        return ()
    reason = cause.event or cause.reason.name
    return (Event("Warning", reason, "Reconcile", _note(cause, reason)),)


def _note(cause: Cause, reason: str) -> str:
    """Return the condition's sentence, with its reason if the event has another one."""
    return cause.message if reason == cause.reason.name else f"{cause.reason.name}: {cause.message}"
