"""An object whose definition is not certain is left as it is."""

from __future__ import annotations

from controller.runtime.plan import Plan
from controller.runtime.reconcile.definition_guard import leave_as_it_is
from controller.runtime.reconcile.installed_definition import EVENT_INTERVAL, InstalledDefinition
from tests.runtime.kit import child


def test_an_object_with_a_complete_definition_is_believed():
    assert leave_as_it_is(child(), InstalledDefinition(awaited=True)) is None


def test_an_edited_object_waits_for_the_schema():
    assert leave_as_it_is(child(), InstalledDefinition(unverified=True)) == Plan(requeue_after=1.0)


def test_an_event_says_why_the_schema_cannot_be_read():
    unread = InstalledDefinition(unverified=True, unread="connection refused")
    made = leave_as_it_is(child(), unread)
    assert made is not None
    [event] = made.events
    assert (event.type, event.reason, made.requeue_after) == ("Warning", "DefinitionUnread", 30.0)
    assert event.action == "Reconcile"
    assert event.note.endswith("by which definition it was read: connection refused")


def test_what_is_missing_is_said_first():
    lacking = InstalledDefinition("RayJob", "None is run", ("spec.suspend",), unverified=True)
    made = leave_as_it_is(child(), lacking)
    assert made is not None
    assert [event.reason for event in made.events] == ["DefinitionIncomplete"]
    assert made.requeue_after == EVENT_INTERVAL, "it is said again"
