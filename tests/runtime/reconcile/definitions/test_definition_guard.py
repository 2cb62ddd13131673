"""An object whose definition is not certain is left as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.apimachinery.problem import Problem
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.plan import Plan
from controller.runtime.reconcile.definitions.cut_edits import SPEC_PRUNED, CutEdit, ReadGenerations
from controller.runtime.reconcile.definitions.definition_guard import (
    believed,
    is_about_cut_edit,
    is_left_as_it_is,
    leave_as_it_is,
    remember,
)
from controller.runtime.reconcile.definitions.installed_definition import (
    EVENT_INTERVAL,
    InstalledDefinition,
)
from tests.runtime.kit import child

CUT = CutEdit(CONFIG_MAPS, child(), "spec.suspend", marked=False)
MARKED = replace(CUT, marked=True)
LACKING = InstalledDefinition("RayJob", "None is run", ("spec.suspend",))


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


def test_an_edit_that_may_have_been_cut_is_marked_whatever_else_is_said():
    assert leave_as_it_is(child(), InstalledDefinition(cut=CUT)) == Plan(commit=CUT.mark)
    made = leave_as_it_is(child(), replace(LACKING, cut=CUT))
    assert made is not None
    assert made.commit == CUT.mark
    assert made.events
    assert leave_as_it_is(child(), InstalledDefinition(cut=MARKED)) is None, "it is planned as such"


def test_it_is_marked_once_it_is_certain_by_which_definition_it_was_read():
    awaited = InstalledDefinition(cut=CUT, awaited=True)
    assert leave_as_it_is(child(), awaited) == Plan(requeue_after=1.0)
    assert leave_as_it_is(child(), replace(awaited, cut=MARKED)) is None
    assert leave_as_it_is(child(), InstalledDefinition(cut=CUT, unverified=True)) == Plan(
        requeue_after=1.0
    )


@pytest.mark.parametrize(
    ("definition", "is_left"),
    [
        (InstalledDefinition(), False),
        (LACKING, True),
        (InstalledDefinition(unverified=True), True),
        (InstalledDefinition(cut=CUT), True),
        (InstalledDefinition(cut=MARKED), False),
        (InstalledDefinition(awaited=True), False),
    ],
)
def test_no_status_is_written_of_what_is_in_doubt_unless_it_is_being_deleted(
    definition: InstalledDefinition, is_left: bool
):
    assert is_left_as_it_is(child(), definition) is is_left
    assert is_left_as_it_is(child(terminating=True), definition) is False


def test_the_goal_of_an_edit_that_is_held_is_its_problem():
    assert believed("goal", InstalledDefinition()) == "goal"
    problem = believed("goal", InstalledDefinition(cut=MARKED))
    assert isinstance(problem, Problem)
    assert problem == MARKED.problem
    assert is_about_cut_edit(problem)
    assert problem.reason == SPEC_PRUNED
    assert not is_about_cut_edit(Problem("spec", "is wrong", "Invalid"))
    assert not is_about_cut_edit(None)


def test_a_plan_remembers_the_generations_that_were_read_if_they_have_changed():
    plan, read = Plan(requeue_after=3.0), ReadGenerations(whole=7)
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
