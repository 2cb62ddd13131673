"""The wait of an object for its installed definition; the object is left as it is meanwhile.

A new generation counts once the schema was read after it came: before, a definition that drops
fields may have read it, which the watch that is still open does not tell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from controller.runtime.plan import Event, Plan
from controller.runtime.reconcile.cut_edits import SPEC_PRUNED
from controller.runtime.reconcile.installed_definition import EVENT_INTERVAL

if TYPE_CHECKING:
    from controller.apimachinery.problem import Problem
    from controller.kube.objects import KubeObject
    from controller.runtime.plan import MergePatch
    from controller.runtime.reconcile.installed_definition import InstalledDefinition

T = TypeVar("T")

CHECK_INTERVAL: Final = 1.0
"""Seconds between two looks at a definition that is to be read in a moment."""

FAILED_CHECK_INTERVAL: Final = 30.0
"""The same after it could not be read."""


def leave_as_it_is(obj: KubeObject, definition: InstalledDefinition) -> Plan | None:
    """The plan that writes nothing and says why; None if the object can be believed."""
    events = definition.events(())
    if events:
        return Plan(commit=_mark(definition), events=events, requeue_after=EVENT_INTERVAL)
    mark = _mark(definition)
    if definition.unverified or (mark is not None and definition.awaited):
        return wait_for_definition(obj, definition)
    return Plan(commit=mark) if mark is not None else None


def is_left_as_it_is(obj: KubeObject, definition: InstalledDefinition) -> bool:
    """True if no status is written either, not even one that names a failed write."""
    if obj.metadata.terminating:
        return False
    is_doubtful = bool(definition.missing) or definition.unverified
    return is_doubtful or _mark(definition) is not None


def believed(goal: T | Problem, definition: InstalledDefinition) -> T | Problem:
    """The goal of the object; the problem of an edit that is held, if there is one."""
    return goal if definition.cut is None else definition.cut.problem


def is_about_cut_edit(problem: Problem | None) -> bool:
    """True if a specification is not invalid, but may have been cut."""
    return problem is not None and problem.reason == SPEC_PRUNED


def remember(plan: Plan, definition: InstalledDefinition) -> Plan:
    """The same plan, with the generations that the next one is to know of, if they have changed."""
    return plan if definition.read is None else replace(plan, memory=definition.read)


def _mark(definition: InstalledDefinition) -> MergePatch | None:
    return definition.cut.mark if definition.cut is not None else None


def wait_for_definition(obj: KubeObject, definition: InstalledDefinition) -> Plan:
    """Look again in a moment; after a failure to read it, an event says what is waited for."""
    message = what_is_awaited(obj, definition)
    if not message:
        return Plan(requeue_after=CHECK_INTERVAL)
    event = Event("Warning", "DefinitionUnread", "Reconcile", message)
    return Plan(events=(event,), requeue_after=FAILED_CHECK_INTERVAL)


def what_is_awaited(obj: KubeObject, definition: InstalledDefinition) -> str:
    """The fields that the generation waits for after a failure, empty if there was none."""
    if not definition.unread:
        return ""
    return (
        f"generation {obj.metadata.generation} of the specification waits until it is certain by "
        f"which definition it was read: {definition.unread}"
    )
