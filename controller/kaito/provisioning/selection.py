"""Finds the Workspaces that an event of a claim or node concerns, and the nodes of a Workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.custom_object import mapping
from controller.kaito.api import labels
from controller.kaito.provisioning.nodes import NodeFacts
from controller.kaito.provisioning.pool_commitment import read_pool_commitment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.kaito.api.node import GpuNode
    from controller.kaito.api.workspace import Workspace
    from controller.kube.objects import KubeObject

BY_WORKSPACE: Final = "workspace"
"""Index of claims and nodes by `namespace/name` of the Workspace that their labels name."""

BY_POOL_WORKSPACE: Final = "pool-workspace"
"""The same for claims and nodes of a NodePool, which have other labels."""

BY_LABEL: Final = "label"
"""Index of nodes by each of their labels, and of all nodes by the empty text."""

BY_SELECTOR: Final = "node-selector"
"""Index of Workspaces by the label of nodes under which these are looked up."""

_PRESSURES: Final = ("DiskPressure", "MemoryPressure", "PIDPressure")


def workspace_keys(obj: KubeObject) -> tuple[str, ...]:
    """Return `namespace/name` of the Workspace that an object's labels name; none without."""
    return _named(obj, labels.WORKSPACE, labels.WORKSPACE_NAMESPACE)


def pool_workspace_keys(obj: KubeObject) -> tuple[str, ...]:
    """Return the same of an object that came with a NodePool."""
    return _named(obj, labels.POOL_WORKSPACE, labels.POOL_WORKSPACE_NAMESPACE)


def claim_workspace_keys(obj: KubeObject) -> tuple[str, ...]:
    """Return the same, with or without a NodePool."""
    return (*workspace_keys(obj), *pool_workspace_keys(obj))


def selectable_by(node: GpuNode) -> tuple[str, ...]:
    """Return all texts under which a node is looked up."""
    return ("", *(_pair(key, value) for key, value in (node.metadata.labels or {}).items()))


def looked_up_by(workspace: Workspace) -> tuple[str, ...]:
    """Return the text by which a Workspace's nodes are looked up; it may be invalid."""
    selector = mapping(mapping(workspace.resource).get("labelSelector"))
    return (lookup_text(mapping(selector.get("matchLabels"))),)


def used_by(workspace: Workspace) -> tuple[str, ...]:
    """Return the texts of the nodes that a Workspace uses or may use beside its NodePool.

    A selector without labels selects no node there.
    """
    text = (workspace.metadata.annotations or {}).get(labels.NODE_POOL_COMMITMENT)
    commitment = read_pool_commitment(text)
    committed = commitment.nodes if commitment is not None else ()
    return (*filter(None, looked_up_by(workspace)), *map(node_text, committed))


def usable_by(node: GpuNode) -> tuple[str, ...]:
    """Return all texts under which a node is looked up there: of its labels, and of itself."""
    return (*selectable_by(node), node_text(node.metadata.name))


def node_text(name: str) -> str:
    """Return the text by which Workspaces that count a node are found; no label equals it."""
    return f"node/{name}"


def lookup_text(selector: Mapping[str, object]) -> str:
    """Return the first label of a selector, by which nodes are looked up; empty if it has none."""
    pairs = sorted(
        _pair(key, value)
        for key, value in selector.items()
        if isinstance(value, str) and labels.without_reserved({key: value})
    )
    return pairs[0] if pairs else ""


def matching(nodes: Iterable[GpuNode], selector: Mapping[str, str]) -> tuple[NodeFacts, ...]:
    """Return the facts about the nodes that have all labels of a selector, by name."""
    found = [
        node_facts(node)
        for node in nodes
        if selector.items() <= (node.metadata.labels or {}).items()
    ]
    return tuple(sorted(found, key=lambda node: node.name))


def node_facts(node: GpuNode) -> NodeFacts:
    """Return the facts about a node."""
    status = node.status
    return NodeFacts(
        name=node.metadata.name,
        uid=node.metadata.uid,
        labels=node.metadata.labels or {},
        is_ready=status.is_true("Ready") and not node.metadata.terminating,
        gpus=_number(status.capacity.gpus),
        pressures=tuple(each for each in _PRESSURES if status.is_true(each)),
    )


def _named(obj: KubeObject, name_label: str, namespace_label: str) -> tuple[str, ...]:
    own = obj.metadata.labels or {}
    name, namespace = own.get(name_label), own.get(namespace_label)
    return (f"{namespace}/{name}",) if name and namespace else ()


def _pair(key: str, value: str) -> str:
    return f"{key}={value}"


def _number(quantity: str | int) -> int:
    """Return the whole number of GPUs."""
    text = str(quantity)
    return int(text) if text.isascii() and text.isdigit() else 0
