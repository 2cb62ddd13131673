"""A definition that lacks what Workspaces rely on deletes no claim and restarts no server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.kaito.api.workspace import WORKSPACES, WorkspaceSpec
from controller.kaito.workspace.kind import RELIED_ON
from controller.runtime.kind import InstalledSchema
from controller.runtime.plan import Failure, Plan
from tests.kaito.workspace.given import NOW, Given, kinds, server, writes
from tests.kaito.workspace.test_plan import deleted
from tests.ray.api.test_installed_definition import published, without

KAITO_CRDS = Path(os.environ.get("MANTA_KAITO_CRDS", ""))
COMPLETE = without(WORKSPACES)


def outdated(schema: InstalledSchema = COMPLETE) -> Given:
    """A Workspace whose server is of another revision, with a definition of this schema."""
    given = Given().with_nodes().with_revision(2).with_services().with_server(server())
    given.reads.schemas[WORKSPACES] = schema
    return given


def is_left(plan: Plan) -> bool:
    return (plan.commit, writes(plan), plan.lookups, plan.status) == (None, [], (), None)


def reasons(plan: Plan) -> list[str]:
    return [event.reason for event in plan.events]


@pytest.mark.parametrize("path", RELIED_ON)
def test_nothing_is_written_while_the_definition_lacks_a_field(path: str):
    plan = outdated(without(WORKSPACES, path)).plan()
    assert is_left(plan)
    assert reasons(plan) == ["DefinitionIncomplete"]
    assert f"lacks {path}:" in plan.events[0].note
    assert "manta crds --kind workspace | kubectl apply --server-side" in plan.events[0].note
    assert plan.requeue_after == 600.0


def test_a_write_that_fails_meanwhile_is_not_told_in_the_status():
    given = outdated(without(WORKSPACES, "tuning"))
    plan = given.plan()
    (patch,) = writes(outdated().plan())
    failure = Failure(patch, "InternalError", "try again")
    assert given.kind.status_after(given.observe(), plan, (failure,), NOW) is None
    assert outdated().kind.status_after(outdated().observe(), plan, (failure,), NOW) is not None


def test_an_edit_waits_until_the_schema_was_read():
    given = outdated()
    given.reads.unverified = frozenset({"Workspace/default/phi"})
    plan = given.plan()
    assert (is_left(plan), plan.requeue_after) == (True, 1.0)


def test_objects_of_a_new_watch_wait_until_the_schema_was_read():
    plan = outdated(InstalledSchema(COMPLETE.schema, is_current=False)).plan()
    assert (is_left(plan), reasons(plan), plan.requeue_after) == (True, [], 1.0)


@pytest.mark.parametrize("is_current", [True, False])
def test_while_the_definition_cannot_be_read_an_event_says_so(*, is_current: bool):
    plan = outdated(InstalledSchema(error="403", is_current=is_current)).plan()
    assert (is_left(plan), reasons(plan)) == (True, ["DefinitionUnread"])
    assert "of Workspaces cannot be read (403)" in plan.events[0].note
    assert plan.requeue_after == 600.0


def test_who_deletes_a_workspace_deletes_its_claims_whatever_the_definition_lacks():
    given = Given(deleted()).with_nodes()
    given.reads.schemas[WORKSPACES] = without(WORKSPACES, "resource.instanceType")
    assert "delete NodeClaim" in kinds(given.plan())[-1]


def fields_of(struct: Any, path: str = "") -> Iterator[str]:
    """Paths of the fields that are no objects with fields of their own."""
    for field in msgspec.inspect.type_info(struct).fields:  # type: ignore[union-attr]
        below = [*_structs(field.type)]
        here = f"{path}{field.encode_name}"
        yield from fields_of(below[0], f"{here}.") if below else [here]


def _structs(found: Any) -> Iterator[Any]:
    match found:
        case msgspec.inspect.StructType(cls=cls):
            yield cls
        case msgspec.inspect.UnionType(types=types):
            for each in types:
                yield from _structs(each)
        case msgspec.inspect.VarTupleType(item_type=item):
            yield from _structs(item)
        case _:
            pass


def test_every_field_that_is_read_is_relied_on():
    read = {each for each in fields_of(WorkspaceSpec) if ".matchExpressions." not in each}
    assert read == {path for path in RELIED_ON if not path.startswith("status.")}


@pytest.mark.skipif(not KAITO_CRDS.name, reason="MANTA_KAITO_CRDS names no folder")
def test_kaitos_definition_lacks_nothing():
    file = KAITO_CRDS / "kaito.sh_workspaces.yaml"
    theirs = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
    [version] = [each for each in theirs["spec"]["versions"] if each["name"] == "v1beta1"]
    schema = InstalledSchema(published(WORKSPACES, version["schema"]["openAPIV3Schema"]))
    assert kinds(outdated(schema).plan()) == [["patch StatefulSet"]]
