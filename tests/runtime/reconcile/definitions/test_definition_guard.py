"""An object whose definition is not certain is left as it is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.runtime.definitions import (
    EVENT_INTERVAL,
    InstalledDefinition,
    ReadGeneration,
    is_left_as_it_is,
    leave_as_it_is,
    remember,
)
from controller.runtime.plan import Plan
from tests.runtime.kit import child

LACKING = InstalledDefinition("RayJob", "None is run", ("spec.suspend",))


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


def test_an_edit_that_may_have_been_cut_is_said_and_nothing_is_written():
    made = leave_as_it_is(child(), InstalledDefinition(cut="a sentence", unverified=True))
    assert made is not None
    assert made == Plan(events=made.events, requeue_after=EVENT_INTERVAL)
    [event] = made.events
    assert (event.type, event.reason, event.note) == ("Warning", "SpecPruned", "a sentence")
    assert event.action == "Reconcile"
    both = leave_as_it_is(child(), replace(LACKING, cut="a sentence"))
    assert both is not None
    assert [each.reason for each in both.events] == ["DefinitionIncomplete"]


@pytest.mark.parametrize(
    ("definition", "is_left"),
    [
        (InstalledDefinition(), False),
        (LACKING, True),
        (InstalledDefinition(unverified=True), True),
        (InstalledDefinition(cut="a sentence"), True),
        (InstalledDefinition(awaited=True), False),
    ],
)
def test_no_status_is_written_of_what_is_in_doubt_unless_it_is_being_deleted(
    definition: InstalledDefinition, is_left: bool
):
    assert is_left_as_it_is(child(), definition) is is_left
    assert is_left_as_it_is(child(terminating=True), definition) is False


def test_a_plan_remembers_the_generation_that_was_read_if_it_has_changed():
    plan, read = Plan(requeue_after=3.0), ReadGeneration(7)
    assert remember(plan, InstalledDefinition()) is plan
    remembering = remember(plan, InstalledDefinition(read=read))
    assert (remembering.requeue_after, remembering.memory) == (3.0, read)


def test_the_event_says_which_generation_waits():
    unread = InstalledDefinition(unverified=True, unread="refused")
    made = leave_as_it_is(child(), unread)
    assert made is not None
    assert made.events[0].note == (
        "generation 0 of the specification waits until it is certain by which definition it was "
        "read: refused"
    )
