"""Leaves an object unchanged until its definition is known: a dropped field would cost a model.

Unlike the kinds of Ray, those of Kaito are also left unchanged while the definition is unreadable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.runtime.plan import Event, Plan
from controller.runtime.reconcile.definitions import definition_guard
from controller.runtime.reconcile.definitions.installed_definition import EVENT_INTERVAL

if TYPE_CHECKING:
    from controller.kube.objects import KubeObject
    from controller.runtime.reconcile.definitions.installed_definition import InstalledDefinition


def leave_as_it_is(obj: KubeObject, definition: InstalledDefinition) -> Plan | None:
    """Return a plan that writes nothing and reports why; None if the specification can be trusted.

    It cannot while the definition is unreadable, or may have changed since the cached objects were
    read.
    """
    if definition.error:
        event = Event("Warning", "DefinitionUnread", "Reconcile", _unread(definition))
        return Plan(events=(event,), requeue_after=EVENT_INTERVAL)
    untouched = definition_guard.leave_as_it_is(obj, definition)
    if untouched is None and definition.awaited:
        return definition_guard.wait_for_definition(obj, definition)
    return untouched


def is_left_as_it_is(obj: KubeObject, definition: InstalledDefinition) -> bool:
    """Return whether no status is written either, not even one that names a failed write.

    That of a deletion is part of its plan, and stays.
    """
    return obj.metadata.terminating or leave_as_it_is(obj, definition) is not None


def _unread(definition: InstalledDefinition) -> str:
    return (
        f"the installed definition of {definition.kind}s cannot be read ({definition.error}), and "
        f"a field that it drops would look like an edit. {definition.consequence}. Grant the "
        "operator the right to read /openapi/v3, as the ClusterRole system:discovery does"
    )
