"""A Workspace with a NodePool, and what there is of it."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.apimachinery.metadata import OWNER_UID
from controller.kaito.api import labels
from controller.kaito.api.karpenter import (
    NODE_CLAIMS,
    NODE_POOLS,
    POOL_CLAIMS,
    ConfiguredNodeClass,
    GpuNode,
    NodeClaim,
    NodeClass,
    NodeClassSettings,
    NodePool,
)
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.workspace import Workspace
from tests.kaito.workspace.given import INSTANCE, Given, node

NAME = "default-phi"
UBUNTU = "image-family-ubuntu"
SPEC = {"imageFamily": "Ubuntu2204", "osDiskSizeGB": 300}
CLASSES = NodeClassSettings(
    classes=(ConfiguredNodeClass(UBUNTU, default=True, spec=SPEC), ConfiguredNodeClass("other"))
)
NODE_CLASSES = CLASSES.resource
POOLS = KaitoOptions(provisioner=Provisioner.NODE_POOLS, node_classes=CLASSES)
OWN_LABELS = {
    labels.POOL_WORKSPACE: "phi",
    labels.POOL_WORKSPACE_NAMESPACE: "default",
    OWNER_UID: "u-1",
}


class GivenPool(Given):
    """A Workspace in a cluster with Karpenter and a NodeClass that is ready."""

    def __init__(self, found: Workspace | None = None) -> None:
        super().__init__(found, POOLS)
        self.reads.add(NODE_CLAIMS).add(POOL_CLAIMS).add(NODE_POOLS).add(NODE_CLASSES, node_class())

    def with_pool(self, **spec: Any) -> GivenPool:
        """The pool, a ready claim and its node."""
        self.reads.add(NODE_POOLS, pool(**spec))
        self.reads.add(NODE_CLAIMS, pool_claim())
        self.reads.add(self.nodes, pool_node())
        return self

    @property
    def nodes(self) -> Any:
        """The resource of nodes."""
        return next(each.resource for each in self.kind.owned if each.resource.kind == "Node")


def node_class(name: str = UBUNTU, ready: str = "True", message: str = "") -> NodeClass:
    """A NodeClass; without the condition Ready if it is empty."""
    condition = {"type": "Ready", "status": ready, "message": message}
    status = {"conditions": [condition] if ready else []}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, NodeClass)


def pool(name: str = NAME, owner: dict[str, str] | None = None, **spec: Any) -> NodePool:
    """The NodePool of the Workspace; `metadata` and `spec` may be changed."""
    metadata = {
        "name": name,
        "uid": "p-1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": OWN_LABELS if owner is None else owner,
        **spec.pop("metadata", {}),
    }
    return msgspec.convert({"metadata": metadata, "spec": {"replicas": 1, **spec}}, NodePool)


def pool_claim(name: str = "default-phi-abcde", *, ready: bool = True, **more: str) -> NodeClaim:
    """A claim that Karpenter has created for the pool; `more` are labels."""
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "labels": OWN_LABELS | {labels.NODE_POOL: NAME} | more,
    }
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return msgspec.convert({"metadata": metadata, "status": status}, NodeClaim)


def pool_node(name: str = "n1", **more: str) -> GpuNode:
    """Its node."""
    pool_labels = OWN_LABELS | {labels.NODE_POOL: NAME, labels.WORKSPACE: ""} | more
    return node(name, **pool_labels)


def own_node(name: str = "n9", **more: str) -> GpuNode:
    """A node that was there before, with the labels that the user asks for."""
    raw = {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {labels.INSTANCE_TYPE: INSTANCE, "apps": "phi", **more},
        },
        "status": {
            "capacity": {"nvidia.com/gpu": "1"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return msgspec.convert(raw, type(node()))
