"""Odd values anywhere in an object or its children: planning goes on, and nothing is deleted.

Each example puts one to three odd values into what the caches of an operator hold of an object at
rest. The plan before has no writes, so that a deletion in the plan after could only come from an
oddness.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.apimachinery.custom_object import dig
from controller.runtime.kind import ObjectUnreadable
from controller.runtime.plan import (
    Create,
    Delete,
    Failure,
    JsonPatch,
    MergePatch,
    Plan,
    Replace,
    Write,
)
from tests.fuzzing.odd import Change, caches, odd_changes
from tests.fuzzing.scenes import NOW, SCENES, Scene, scene
from tests.ray.plain_data import paths

kinds = pytest.mark.parametrize("name", SCENES)
few = settings(max_examples=30, derandomize=True, database=None)
many = settings(max_examples=400, derandomize=True, database=None)


def writes(plan: Plan) -> Iterator[Write]:
    if plan.commit is not None:
        yield plan.commit
    for stage in plan.stages:
        yield from stage
    yield from plan.independent


def sent(write: Write) -> Any:
    match write:
        case Create():
            return write.body
        case MergePatch():
            return write.patch
        case JsonPatch():
            return write.operations
        case Replace():
            return write.merge
        case Delete():
            return None


def said(plan: Plan) -> str:
    """The texts of everything that tells of the plan: its events, and the status that it writes."""
    told: list[Any] = [each.note for each in plan.events]
    if plan.status is not None:
        told += [plan.status.wanted, *(each.note for each in plan.status.events)]
    if plan.commit is not None:
        told.append(sent(plan.commit))
    return "\n".join(texts(told))


def texts(value: Any) -> Iterator[str]:
    for path in paths(value):
        found = dig(value, *path)
        if isinstance(found, str):
            yield found


def is_edit(here: Scene, change: Change) -> bool:
    """Return whether the change is an edit, if it leaves the specification valid."""
    resource, _, path, _ = change
    return resource == here.kind.primary and path[0] not in {"metadata", "status"}


def plan_beside(name: str, changes: list[Change]) -> None:
    """Observe and plan, and check what is planned."""
    here = scene(name)
    try:
        seen = here.kind.observe(here.key, caches(here, changes))
    except ObjectUnreadable:
        return  # nothing is planned
    if seen is None:
        return
    problem, plan = here.kind.problem(seen), here.kind.plan(seen, NOW)
    planned = list(writes(plan))
    if problem is not None or not any(is_edit(here, each) for each in changes):
        assert [each.target for each in planned if isinstance(each, Delete)] == []
    failures = tuple(Failure(each, "Forbidden", "no") for each in planned[:1])
    reports = [plan.status, here.kind.status_after(seen, plan, failures, NOW)]
    bodies = [*(sent(each) for each in planned), *(each.wanted for each in reports if each)]
    assert msgspec.json.encode(bodies)
    if problem is not None:
        is_left = any(each.type == "Warning" for each in plan.events)  # without any status
        # A plan with look-ups is made again with their answers, and tells then. Long ones are cut.
        assert plan.lookups or is_left or problem.message[:100] in said(plan)


@kinds
def test_nothing_is_planned_at_rest(name: str):
    here = scene(name)
    seen = here.kind.observe(here.key, caches(here, []))
    assert seen is not None
    assert here.kind.problem(seen) is None
    assert [each for each in writes(here.kind.plan(seen, NOW)) if isinstance(each, Delete)] == []


@kinds
@few
@given(data=st.data())
def test_odd_values_delete_nothing_and_are_survived(name: str, data: st.DataObject):
    plan_beside(name, data.draw(odd_changes(scene(name))))


@pytest.mark.slow
@kinds
@many
@given(data=st.data())
def test_more_odd_values_delete_nothing_and_are_survived(name: str, data: st.DataObject):
    plan_beside(name, data.draw(odd_changes(scene(name))))
