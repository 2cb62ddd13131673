"""The events about a cluster's readiness: one for each new first cause, and one for its end.

The stored condition `Ready` shows what was reported before, so a restart repeats nothing. Where the
first cause goes to and fro, each is told of once until the cluster is ready or edited. A cluster
that comes up without trouble needs no event: its conditions tell that it is ready.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import READY, find_condition, is_true
from controller.ray.api.cluster_condition_types import PROVISIONED
from controller.ray.cluster.observed.pod_history import PodHistory
from controller.ray.diagnosis.reasons import (
    DELETION_HELD,
    REASONS,
    REQUIRED_OBJECT_MISSING,
    Severity,
    component_of,
)
from controller.runtime.plan import Event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.ray.diagnosis.reasons import Cause

BECAME_READY: Final = "RayClusterReady"
_IN_PROGRESS: Final = frozenset(
    reason.name for reason in REASONS if reason.severity is Severity.IN_PROGRESS
)


def with_trouble(
    history: PodHistory, conditions: Sequence[Mapping[str, Any]], generation: int
) -> PodHistory:
    """Return the history, which remembers the trouble that the stored conditions name.

    That of earlier generations is forgotten: it is told of again.
    """
    ready = find_condition(conditions, READY) or {}
    if ready.get("status") == "True":
        return replace(history, told=frozenset())
    if ready.get("status") != "False" or ready.get("reason") in _IN_PROGRESS:
        return history
    told = frozenset(each for each in history.told if each[0] == generation)
    if ready.get("observedGeneration") == generation:
        told |= {(generation, *_told_in(ready))}
    return replace(history, troubled=True, told=told)


def readiness_events(
    conditions: Sequence[Mapping[str, Any]],
    cause: Cause | None,
    history: PodHistory | None,
    generation: int,
) -> tuple[Event, ...]:
    """Return the events for the change from the stored conditions to this first cause.

    A cause that only takes time has none; missing objects of users are reported with the children,
    held deletions with their own condition.
    """
    history = history or PodHistory()
    ready = find_condition(conditions, READY) or {}
    if cause is None:
        comes_up = not is_true(conditions, PROVISIONED) and not history.troubled
        if ready.get("status") == "True" or comes_up:
            return ()
        return (Event("Normal", BECAME_READY, "Reconcile", "The head and all workers are ready"),)
    what = (cause.reason.name, cause.component)
    stored = ready.get("status") == "False" and _told_in(ready) == what
    reported = stored or (generation, *what) in history.told
    if (
        reported
        or cause.reason in {REQUIRED_OBJECT_MISSING, DELETION_HELD}
        or cause.reason.severity is Severity.IN_PROGRESS
    ):
        return ()
    reason = cause.event or cause.reason.name
    return (Event("Warning", reason, "Reconcile", _note(cause, reason)),)


def _told_in(ready: Mapping[str, Any]) -> tuple[str, str]:
    """Return reason and component of the cause that the condition names."""
    return str(ready.get("reason")), component_of(str(ready.get("message")))


def _note(cause: Cause, reason: str) -> str:
    """Return the condition's sentence, with its reason if the event has another one."""
    return cause.message if reason == cause.reason.name else f"{cause.reason.name}: {cause.message}"
