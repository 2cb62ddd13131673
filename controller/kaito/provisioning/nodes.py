"""Decides whether the nodes of a Workspace are ready for its workload, and what they lack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.kaito.api import labels

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

ACCELERATOR: Final = "nvidia"
"""Value of the label that nodes with GPUs get."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts about a node that the selector of a Workspace finds.

    Attributes:
        name: name of the node.
        labels: labels of the node.
        uid: uid of the node.
        is_ready: whether its kubelet says so, and it is not being deleted.
        gpus: number that its plugin offers.
        pressures: conditions of the node that warn, such as `DiskPressure`.
    """

    name: str
    labels: Mapping[str, str]
    uid: str = ""
    is_ready: bool = True
    gpus: int = 0
    pressures: tuple[str, ...] = ()

    @property
    def is_claimed(self) -> bool:
        """True if it came with a claim."""
        return labels.NODE_POOL in self.labels

    @property
    def has_workspace(self) -> bool:
        """True if it was provisioned for any Workspace."""
        return not self.labels.keys().isdisjoint((labels.WORKSPACE, labels.POOL_WORKSPACE))

    def is_of(self, instance_type: str) -> bool:
        """Return whether it is of this instance type; names compare without case (KAI-7)."""
        return self.labels.get(labels.INSTANCE_TYPE, "").lower() == instance_type.lower()


@dataclass(frozen=True, slots=True)
class NodeReadiness:
    """The verdict.

    Attributes:
        is_ready: whether the workload may be created.
        reason: reason of the condition `NodesReady`.
        message: message of that condition.
        to_label: names of nodes that lack the label of their accelerator.
    """

    is_ready: bool
    reason: str
    message: str
    to_label: tuple[str, ...] = ()


def own_nodes(nodes: Iterable[NodeFacts], instance_type: str) -> tuple[NodeFacts, ...]:
    """Return the nodes that existed before and need no claim; of any type if none is named."""
    return tuple(
        node
        for node in nodes
        if not node.is_claimed and (not instance_type or node.is_of(instance_type))
    )


def node_readiness(
    nodes: Collection[NodeFacts], target: int, instance_type: str, *, has_gpus: bool
) -> NodeReadiness:
    """Return whether so many nodes are ready, and offer their GPUs.

    Args:
        nodes: that the Workspace may use.
        target: number of nodes that the workload needs; never ready while it is 0 (KAI-3).
        instance_type: of the nodes; empty for nodes of one's own, of which nothing is known.
        has_gpus: whether the type is known to have NVIDIA's GPUs.
    """
    warning = _pressure(nodes)
    fitting = [node for node in nodes if not instance_type or node.is_of(instance_type)]
    ready = [node for node in fitting if node.is_ready]
    if target < 1 or len(ready) < target:
        message = f"Not enough Nodes are ready: {len(ready)} of {target}"
        return NodeReadiness(is_ready=False, reason="NodeNotReady", message=message + warning)
    claimed = sorted(node.name for node in ready if node.is_claimed) if has_gpus else []
    by_name = {node.name: node for node in ready}
    to_label = tuple(
        name for name in claimed if by_name[name].labels.get(labels.ACCELERATOR) != ACCELERATOR
    )
    without = [name for name in claimed if not by_name[name].gpus]
    usable = len(ready) - len({*to_label, *without})
    if usable < target:
        waited = sorted({*to_label, *without})
        message = f"waiting all node plugins to be ready: {', '.join(waited)}"
        return NodeReadiness(
            is_ready=False,
            reason="NodePluginsNotReady",
            message=message + warning,
            to_label=to_label,
        )
    message = "Enough Nodes are ready" + warning
    return NodeReadiness(is_ready=True, reason="NodesReady", message=message, to_label=to_label)


def _pressure(nodes: Iterable[NodeFacts]) -> str:
    """Return a warning about nodes that are short of something; empty if none is."""
    named = [
        f"{node.name} ({', '.join(node.pressures)})"
        for node in sorted(nodes, key=lambda node: node.name)
        if node.pressures
    ]
    if not named:
        return ""
    return f"; warning: worker node(s) under resource pressure: {', '.join(named)}"
