"""Node: what is read of it, for placing models. Its heartbeats are left out."""

from __future__ import annotations

from typing import Final

import msgspec

from controller.kube.objects import Condition, KubeObject, View
from controller.kube.resources import Resource


class NodeCapacity(View, frozen=True):
    """`status.capacity`, of which only the GPUs count."""

    gpus: str | int = msgspec.field(default=0, name="nvidia.com/gpu")


class NodeStatus(View, frozen=True):
    """`status` of a Node."""

    capacity: NodeCapacity = NodeCapacity()
    conditions: tuple[Condition, ...] = ()

    def is_true(self, type_: str) -> bool:
        """Return whether the condition of that type is True."""
        return any(each.type == type_ and each.status == "True" for each in self.conditions)


class GpuNode(KubeObject, frozen=True):
    """A Node, cluster-scoped."""

    status: NodeStatus = NodeStatus()


NODES: Final = Resource("", "v1", "nodes", "Node", GpuNode, namespaced=False)
