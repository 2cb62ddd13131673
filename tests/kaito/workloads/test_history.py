"""ControllerRevisions of a Workspace: numbers, names, and how many are kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.kaito.api.revisions import (
    RevisionState,
    WorkspaceRevision,
    next_revision,
    revision_data,
    revision_hash,
)
from controller.kube.objects import ObjectMeta
from tests.kaito.support import workspace

WORKSPACE = workspace()
HASH = revision_hash(WORKSPACE)


def kept(number: int, hash_: str, digits: int = 5, data: Any = None) -> WorkspaceRevision:
    metadata = {"name": f"phi-{hash_[:digits]}", "annotations": {"workspace.kaito.io/hash": hash_}}
    return msgspec.convert(
        {"metadata": metadata, "revision": number, "data": data}, WorkspaceRevision
    )


def test_the_first_revision_is_what_kaito_writes():
    step = next_revision(WORKSPACE, HASH, [])
    assert (step.revision.number, step.revision.hash, step.surplus) == (1, HASH, None)
    assert step.create == {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"phi-{HASH[:5]}",
            "namespace": "default",
            "labels": {"workspace.kaito.io/name": "phi"},
            "annotations": {"workspace.kaito.io/hash": HASH},
            "ownerReferences": [
                {
                    "apiVersion": "kaito.sh/v1beta1",
                    "kind": "Workspace",
                    "name": "phi",
                    "uid": "u-1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "revision": 1,
        "data": revision_data(WORKSPACE),
    }


@pytest.mark.parametrize(("count", "surplus"), [(10, None), (11, f"phi-{0:05}")])
def test_the_oldest_of_more_than_ten_goes(count: int, surplus: str | None):
    revisions = [kept(number + 1, f"{number:05}") for number in reversed(range(count))]
    step = next_revision(WORKSPACE, HASH, revisions)
    assert (step.surplus and step.surplus.metadata.name) == surplus


def test_a_revision_keeps_its_name_and_number_when_a_shorter_name_becomes_free():
    step = next_revision(WORKSPACE, HASH, [], taken=[f"phi-{HASH[:5]}"])
    assert step.name == f"phi-{HASH[:10]}"
    again = next_revision(WORKSPACE, HASH, [kept(1, HASH, digits=10)])
    assert (again.name, again.revision.number, again.create) == (f"phi-{HASH[:10]}", 1, None)


def with_nodes(*nodes: str) -> Any:
    resource = WORKSPACE.resource | {"preferredNodes": list(nodes)}
    return msgspec.structs.replace(WORKSPACE, resource=resource)


def test_a_workload_of_a_specification_in_another_order_is_only_marked():
    before, after = with_nodes("a", "b"), with_nodes("b", "a")
    assert revision_hash(before) != revision_hash(after), "Kaito's hash counts lists as written"

    def state(present: Any) -> RevisionState:
        made_from = revision_hash(before)
        known = kept(1, made_from, data=revision_data(before))
        step = next_revision(present, revision_hash(present), [known])
        marks = {"workspace.kaito.io/hash": made_from, "workspace.kaito.io/revision": "1"}
        return step.revision.state_of(ObjectMeta(name="phi", annotations=marks))

    assert state(before) is RevisionState.PRESENT
    assert state(after) is RevisionState.UNMARKED
    assert state(with_nodes("a", "c")) is RevisionState.OUTDATED
