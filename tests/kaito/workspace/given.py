"""Observations of a Workspace from plain objects, and the plans that they lead to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from controller.kaito.api import labels
from controller.kaito.api.config_maps import OPTIONS_MAPS, OptionsMap
from controller.kaito.api.karpenter import NODE_CLAIMS, NODES, GpuNode, NodeClaim
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.revisions import WorkspaceRevision
from controller.kaito.api.workspace import WORKSPACES, Workspace
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kaito.workspace.observation import WorkspaceObservation
from controller.kaito.workspace.watches import DEPLOYMENTS, JOBS, REVISIONS
from controller.kube.objects import Job, KubeObject, Service, StatefulSet
from controller.kube.resources import SERVICES, STATEFUL_SETS
from controller.runtime.plan import Create, Delete, JsonPatch, MergePatch, Plan, Write
from controller.testing.reads import FakeReads
from tests.kaito.support import workspace

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
INSTANCE = "Standard_NC24ads_A100_v4"
OWNER = {"apiVersion": "kaito.sh/v1beta1", "kind": "Workspace", "name": "phi", "uid": "u-1"}


def own(name: str = "phi", **metadata: Any) -> dict[str, Any]:
    """Metadata of an object that the Workspace controls."""
    own_reference = [{**OWNER, "controller": True}]
    uid = f"uid-{name}"
    base = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": "7"}
    return {**base, "ownerReferences": own_reference, **metadata}


def node(name: str = "n1", *, gpus: int = 1, ready: bool = True, **more: str) -> GpuNode:
    """A claimed node of the Workspace; `more` are labels."""
    own_labels = {
        labels.WORKSPACE: "phi",
        labels.WORKSPACE_NAMESPACE: "default",
        labels.NODE_POOL: "kaito",
        labels.INSTANCE_TYPE: INSTANCE,
        labels.ACCELERATOR: "nvidia",
        "apps": "phi",
    }
    raw = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {**own_labels, **more}},
        "status": {
            "capacity": {"nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }
    return msgspec.convert(raw, GpuNode)


def claim(name: str = "wsaaaaaaaaa", *, ready: bool = True, **more: str) -> NodeClaim:
    """A claim that Kaito has created for the Workspace; `more` are labels."""
    own_labels = {labels.WORKSPACE: "phi", labels.WORKSPACE_NAMESPACE: "default", **more}
    raw = {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": own_labels,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }
    return msgspec.convert(raw, NodeClaim)


def server(ready: int = 1, replicas: int = 1, **annotations: str) -> StatefulSet:
    """A StatefulSet of the Workspace, as Kaito marks it."""
    marks = annotations or {labels.REVISION: "1"}
    container = {"name": "phi", "image": "example.com/server:1", "command": ["/bin/sh", "-c", "x"]}
    raw = {
        "metadata": own(annotations=marks),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {labels.WORKSPACE: "phi"}},
            "template": {"spec": {"containers": [container]}},
        },
        "status": {"replicas": replicas, "readyReplicas": ready},
    }
    return msgspec.convert(raw, StatefulSet)


def job(*, active: int = 0, condition: str = "", failed: int = 0, **annotations: str) -> Job:
    """A Job of the Workspace."""
    marks = annotations or {labels.REVISION: "1"}
    conditions = [{"type": condition, "status": "True"}] if condition else []
    raw = {
        "metadata": own(annotations=marks, labels={labels.WORKSPACE: "phi"}),
        "status": {"active": active, "failed": failed, "conditions": conditions},
    }
    return msgspec.convert(raw, Job)


class Given:
    """A Workspace and what there is of it; `plan` says what is done next."""

    def __init__(
        self, found: Workspace | None = None, settings: KaitoOptions | None = None
    ) -> None:
        self.kind = WorkspaceKind(settings)
        self.workspace = found or workspace()
        self.reads = FakeReads(self.kind).add(WORKSPACES, self.workspace)
        if self.kind.owned[0].resource == NODE_CLAIMS:
            self.reads.add(NODE_CLAIMS)

    def with_nodes(self) -> Given:
        """A ready claim and its node."""
        self.reads.add(NODE_CLAIMS, claim()).add(NODES, node())
        return self

    def with_revision(self, number: int = 1, *, name: str = "") -> Given:
        """The present specification's ControllerRevision, or with a name that of another one."""
        (create,) = self.creates(self.plan(), "ControllerRevision")
        metadata = {**create.body["metadata"], "uid": f"uid-revision-{number}"}
        if name:
            metadata |= {"name": name, "annotations": {}}
        raw = {"metadata": metadata, "revision": number, "data": create.body["data"]}
        self.reads.add(REVISIONS, msgspec.convert(raw, WorkspaceRevision))
        return self

    def with_services(self) -> Given:
        for name in ("phi", "phi-headless"):
            self.reads.add(SERVICES, msgspec.convert({"metadata": own(name)}, Service))
        return self

    def with_server(self, found: StatefulSet) -> Given:
        self.reads.add(STATEFUL_SETS, found)
        return self

    def with_deployment(self, **metadata: Any) -> Given:
        """The server of a Kaito before 0.8."""
        self.reads.add(DEPLOYMENTS, msgspec.convert({"metadata": own(**metadata)}, KubeObject))
        return self

    def with_job(self, found: Job) -> Given:
        self.reads.add(JOBS, found)
        return self

    def with_config(self, name: str, **data: str) -> Given:
        raw = {"metadata": {"name": name, "namespace": "default"}, "data": data}
        self.reads.add(OPTIONS_MAPS, msgspec.convert(raw, OptionsMap))
        return self

    def observe(self) -> WorkspaceObservation:
        found = self.kind.observe("default/phi", self.reads)
        assert found is not None
        return found

    def plan(self) -> Plan:
        return self.kind.plan(self.observe(), NOW)

    def condition(self, type_: str) -> tuple[str, str, str]:
        status = self.plan().status
        assert status is not None
        for each in status.wanted["conditions"]:
            if each["type"] == type_:
                return each["status"], each["reason"], each["message"]
        return "", "", ""

    @property
    def state(self) -> str:
        status = self.plan().status
        assert status is not None
        return status.wanted["state"]

    @staticmethod
    def creates(plan: Plan, kind: str) -> list[Create]:
        return [
            each
            for each in writes(plan)
            if isinstance(each, Create) and each.target.resource.kind == kind
        ]


def writes(plan: Plan) -> list[Write]:
    """All but commit and status."""
    return [*(write for stage in plan.stages for write in stage), *plan.independent]


def kinds(plan: Plan) -> list[list[str]]:
    """Verb and kind of the writes of each stage, then of the others."""
    groups = [*plan.stages, plan.independent]
    return [[f"{verb(write)} {write.target.resource.kind}" for write in group] for group in groups]


def verb(write: Write) -> str:
    match write:
        case Create():
            return "create"
        case Delete():
            return "delete"
        case MergePatch() | JsonPatch():
            return "patch"
        case _:
            return "replace"
