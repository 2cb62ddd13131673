"""A definition that lacks what InferenceSets rely on deletes and creates no Workspace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.inferenceset.kind import RELIED_ON, RELIED_ON_IN_WORKSPACES
from controller.kube.resources import Resource
from controller.runtime.kind import InstalledSchema
from controller.runtime.plan import Failure, Plan
from tests.kaito.inferenceset.given import NOW, Given, replica_of, writes
from tests.kaito.support import inference_set
from tests.ray.api.test_installed_definition import published, without

KAITO_CRDS = Path(os.environ.get("MANTA_KAITO_CRDS", ""))
COMPLETE = {INFERENCE_SETS: without(INFERENCE_SETS), WORKSPACES: without(WORKSPACES)}


def with_surplus(schemas: dict[Resource[Any], InstalledSchema] | None = None) -> Given:
    """A set of one replica that has two."""
    given = Given(inference_set(replicas=1))
    given.with_replicas(*(replica_of(name) for name in given.names[:2]))
    given.reads.schemas = {**COMPLETE, **(schemas or {})}
    return given


def is_left(plan: Plan) -> bool:
    return (plan.commit, writes(plan), plan.lookups, plan.status) == (None, [], (), None)


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        *((INFERENCE_SETS, path) for path in RELIED_ON),
        *((WORKSPACES, path) for path in RELIED_ON_IN_WORKSPACES),
    ],
)
def test_nothing_is_written_while_a_definition_lacks_a_field(resource: Resource[Any], path: str):
    plan = with_surplus({resource: without(resource, path)}).plan()
    assert is_left(plan)
    assert [each.reason for each in plan.events] == ["DefinitionIncomplete"]
    assert f"lacks {path}:" in plan.events[0].note
    assert "manta crds --kind workspace | kubectl apply --server-side" in plan.events[0].note


def test_a_write_that_fails_meanwhile_is_not_told_in_the_status():
    given = with_surplus()
    (write,) = writes(given.plan())
    failure = Failure(write, "InternalError", "try again")
    assert given.kind.status_after(given.observe(), given.plan(), (failure,), NOW) is not None
    given = with_surplus({INFERENCE_SETS: without(INFERENCE_SETS, "spec.replicas")})
    assert given.kind.status_after(given.observe(), given.plan(), (failure,), NOW) is None


def test_while_the_definition_cannot_be_read_an_event_says_so():
    plan = with_surplus({INFERENCE_SETS: InstalledSchema(error="403")}).plan()
    assert is_left(plan)
    assert [each.reason for each in plan.events] == ["DefinitionUnread"]
    assert "of InferenceSets cannot be read (403)" in plan.events[0].note


@pytest.mark.skipif(not KAITO_CRDS.name, reason="MANTA_KAITO_CRDS names no folder")
def test_kaitos_definitions_lack_nothing():
    schemas: dict[Resource[Any], InstalledSchema] = {}
    for resource in (INFERENCE_SETS, WORKSPACES):
        file = KAITO_CRDS / f"kaito.sh_{resource.plural}.yaml"
        theirs = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        [version] = [each for each in theirs["spec"]["versions"] if each["name"] == "v1beta1"]
        schemas[resource] = InstalledSchema(
            published(resource, version["schema"]["openAPIV3Schema"])
        )
    assert len(writes(with_surplus(schemas).plan())) == 1
