"""Observations of an InferenceSet from plain objects, and the plans that they lead to."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec

from controller.kaito.api.inferenceset import INFERENCE_SETS, InferenceSet
from controller.kaito.api.labels import CREATED_BY_INFERENCE_SET as CREATED_BY
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.workspace import WORKSPACES, Workspace
from controller.kaito.inferenceset.kind import InferenceSetKind
from controller.kaito.inferenceset.observe import (
    InferenceSetObservation,
    replica_names,
)
from controller.kube.objects import StatefulSet
from controller.kube.resources import STATEFUL_SETS
from controller.runtime.plan import Plan, Write
from controller.testing.reads import FakeReads
from tests.kaito.support import inference_set, raw_workspace

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
OWNER = {
    "apiVersion": "kaito.sh/v1beta1",
    "kind": "InferenceSet",
    "name": "models",
    "uid": "s-1",
    "controller": True,
}
SUCCEEDED = {"type": "WorkspaceSucceeded", "status": "True"}


def with_metadata(found: InferenceSet, **metadata: Any) -> InferenceSet:
    """The same set with other metadata."""
    changed = msgspec.structs.replace(found.metadata, **metadata)
    return msgspec.structs.replace(found, metadata=changed)


def replica_of(
    name: str, *, ready: bool = False, terminating: bool = False, **changes: Any
) -> Workspace:
    """A Workspace of the set."""
    labels = {CREATED_BY: OWNER["name"]} | changes.pop("labels", {})
    raw = raw_workspace(name=name, uid=f"uid-{name}", labels=labels, **changes)
    raw["metadata"]["ownerReferences"] = [OWNER]
    if terminating:
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if ready:
        raw["status"] = {"conditions": [SUCCEEDED]}
    return msgspec.convert(raw, Workspace)


def server_of(workspace: Workspace, image: str, *, ready: bool = False) -> StatefulSet:
    """The StatefulSet of a Workspace."""
    meta = workspace.metadata
    owner = {**OWNER, "kind": "Workspace", "name": meta.name, "uid": meta.uid}
    raw = {
        "metadata": {"name": meta.name, "namespace": "default", "ownerReferences": [owner]},
        "spec": {"template": {"spec": {"containers": [{"name": meta.name, "image": image}]}}},
        "status": {"readyReplicas": 1, "updatedReplicas": 1} if ready else {},
    }
    return msgspec.convert(raw, StatefulSet)


class Given:
    """A set of two replicas and what there is of it; `plan` says what is done next."""

    def __init__(
        self, found: InferenceSet | None = None, settings: KaitoOptions | None = None
    ) -> None:
        self.kind = InferenceSetKind(settings)
        self.set = found or inference_set()
        self.reads = FakeReads(self.kind).add(INFERENCE_SETS, self.set).add(WORKSPACES)
        self.names = tuple(islice(replica_names(self.set.metadata), 8))

    def with_replicas(self, *found: Workspace) -> Given:
        self.reads.add(WORKSPACES, *found)
        return self

    def with_server(self, workspace: Workspace, image: str, *, ready: bool = False) -> Given:
        self.reads.add(STATEFUL_SETS, server_of(workspace, image, ready=ready))
        return self

    def observe(self) -> InferenceSetObservation:
        found = self.kind.observe("default/models", self.reads)
        assert found is not None
        return found

    def plan(self) -> Plan:
        return self.kind.plan(self.observe(), NOW)

    @property
    def status(self) -> dict[str, Any]:
        status = self.plan().status
        assert status is not None
        return dict(status.wanted)

    def condition(self, type_: str = "InferenceSetReady") -> tuple[str, str, str]:
        """Status, reason and message; empty if there is no such condition."""
        for each in self.status["conditions"]:
            if each["type"] == type_:
                return each["status"], each["reason"], each["message"]
        return "", "", ""


def writes(plan: Plan) -> list[Write]:
    """All but commit and status."""
    return [*(write for stage in plan.stages for write in stage), *plan.independent]


def names(plan: Plan, verb: type[Write]) -> list[str]:
    """Names of the objects that a plan writes so."""
    return [each.target.name for each in writes(plan) if isinstance(each, verb)]
