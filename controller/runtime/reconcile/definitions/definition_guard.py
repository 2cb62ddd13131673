"""Leaves an object unchanged until its installed definition is known.

A new generation counts only after the schema has been read again. Before that, a definition that
drops fields may have read it, and the open watch does not show that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controller.runtime.plan import Event, Plan
from controller.runtime.reconcile.definitions.installed_definition import EVENT_INTERVAL

if TYPE_CHECKING:
    from controller.kube.objects import KubeObject
    from controller.runtime.reconcile.definitions.installed_definition import InstalledDefinition

SPEC_PRUNED: Final = "SpecPruned"
"""Reason of the event about an object whose last edit a definition may have cut."""

CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks of a definition that will be read in a moment."""

FAILED_CHECK_INTERVAL: Final = 30.0
"""Seconds between two checks after it could not be read."""


def leave_as_it_is(obj: KubeObject, definition: InstalledDefinition) -> Plan | None:
    """Return a plan that writes nothing and reports why; None if the object can be trusted."""
    events = definition.events(())
    if not events and definition.cut:
        events = (Event("Warning", SPEC_PRUNED, "Reconcile", definition.cut),)
    if events:
        return Plan(events=events, requeue_after=EVENT_INTERVAL)
    return wait_for_definition(obj, definition) if definition.unverified else None


def is_left_as_it_is(obj: KubeObject, definition: InstalledDefinition) -> bool:
    """Return whether no status is written either, not even one that names a failed write."""
    return not obj.metadata.terminating and leave_as_it_is(obj, definition) is not None


def remember(plan: Plan, definition: InstalledDefinition) -> Plan:
    """Return the plan with the generation for the next plan, if it has changed."""
    return plan if definition.read is None else replace(plan, memory=definition.read)


def wait_for_definition(obj: KubeObject, definition: InstalledDefinition) -> Plan:
    """Return a plan that checks again soon; after a failed read, an event reports the wait."""
    message = what_is_awaited(obj, definition)
    if not message:
        return Plan(requeue_after=CHECK_INTERVAL)
    event = Event("Warning", "DefinitionUnread", "Reconcile", message)
    return Plan(events=(event,), requeue_after=FAILED_CHECK_INTERVAL)


def what_is_awaited(obj: KubeObject, definition: InstalledDefinition) -> str:
    """Return a sentence about the wait after a failed read, empty if there was none."""
    if not definition.unread:
        return ""
    return (
        f"generation {obj.metadata.generation} of the specification waits until it is certain by "
        f"which definition it was read: {definition.unread}"
    )
