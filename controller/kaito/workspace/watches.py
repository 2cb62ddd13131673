"""The resources that Workspaces watch besides themselves.

Jobs, pods and ControllerRevisions are parts of their resources, selected by Kaito's labels: other
kinds of the same process watch other parts. Kaito's StatefulSets and services have no labels
(KAI-16), so these are watched whole, and little is read of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controller.apimachinery.custom_object import dig, mapping
from controller.kaito.api import inference_pool, labels
from controller.kaito.api.config_maps import OPTIONS_MAPS
from controller.kaito.api.karpenter import (
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    POOL_CLAIMS,
    GpuNode,
    labelled,
)
from controller.kaito.api.labels import name_in
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.revisions import WorkspaceRevision
from controller.kaito.api.workspace import Workspace
from controller.kaito.provisioning.nodes import node_pool_name
from controller.kaito.provisioning.pools import read_pool_commitment
from controller.kube import resources
from controller.kube.objects import KubeObject
from controller.kube.resources import SERVICES, STATEFUL_SETS, Resource
from controller.runtime.kind import Owned, References

JOBS: Final = msgspec.structs.replace(resources.JOBS, part="workspaces")
PODS: Final = msgspec.structs.replace(resources.PODS, part="workspaces")
REVISIONS: Final = Resource(
    "apps", "v1", "controllerrevisions", "ControllerRevision", WorkspaceRevision, part="workspaces"
)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", KubeObject)
"""The servers of Kaito before 0.8; they have no labels either (KAI-16)."""

STORAGE_CLASSES: Final = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", KubeObject, namespaced=False
)

_DEFAULT_CONFIGS: Final = ("lora-params-template", "qlora-params-template")


BY_WORKSPACE: Final = "workspace"
"""Index of claims and nodes by `namespace/name` of the Workspace that their labels name."""

BY_POOL_WORKSPACE: Final = "pool-workspace"
"""The same for claims and nodes of a NodePool, which have other labels."""

BY_LABEL: Final = "label"
"""Index of nodes by each of their labels, and of all nodes by the empty text."""

BY_SELECTOR: Final = "node-selector"
"""Index of Workspaces by the label of nodes under which these are looked up."""


def workspace_keys(obj: KubeObject) -> tuple[str, ...]:
    """Return `namespace/name` of the Workspace that an object's labels name; none without."""
    return name_in(obj, labels.WORKSPACE, labels.WORKSPACE_NAMESPACE)


def pool_workspace_keys(obj: KubeObject) -> tuple[str, ...]:
    """Return the same of an object that came with a NodePool."""
    return name_in(obj, labels.POOL_WORKSPACE, labels.POOL_WORKSPACE_NAMESPACE)


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


def _pair(key: str, value: str) -> str:
    return f"{key}={value}"


_CLAIMS: Final = labelled(NODE_CLAIMS, BY_WORKSPACE, workspace_keys, labels.WORKSPACE)
_CLAIMED_NODES: Final = labelled(
    NODES, BY_WORKSPACE, workspace_keys, labels.WORKSPACE, optional=False
)
_OWN_NODES: Final = Owned(
    NODES,
    indexes={BY_LABEL: selectable_by},
    references=References(BY_SELECTOR, looked_up_by, selectable_by),
)
"""Nodes of one's own may have any labels, so that all nodes are watched."""

_POOL_CLAIMS: Final = labelled(
    POOL_CLAIMS, BY_POOL_WORKSPACE, pool_workspace_keys, labels.POOL_WORKSPACE
)
_ALL_NODES: Final = Owned(
    NODES,
    indexes={
        BY_LABEL: selectable_by,
        BY_WORKSPACE: workspace_keys,
        BY_POOL_WORKSPACE: pool_workspace_keys,
    },
    also_enqueues=claim_workspace_keys,
    references=References(BY_SELECTOR, used_by, usable_by),
)
"""Beside a NodePool, nodes of one's own may be used too."""


def config_keys(workspace: Workspace) -> tuple[str, ...]:
    """Return keys of the ConfigMaps that a Workspace may refer to; the object may be invalid."""
    names = [dig(workspace.inference, "config"), dig(workspace.tuning, "config")]
    if workspace.tuning is not None:
        names.extend(_DEFAULT_CONFIGS)
    namespace = workspace.metadata.namespace
    return tuple(f"{namespace}/{name}" for name in names if isinstance(name, str) and name)


def _named_workspace(pod: KubeObject) -> tuple[str, ...]:
    name = (pod.metadata.labels or {}).get(labels.WORKSPACE)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()


def _pool_names(workspace: Workspace) -> tuple[str, ...]:
    """Return the name of the Workspace's NodePool, which another Workspace may have too (KAI-9)."""
    meta = workspace.metadata
    return (node_pool_name(meta.namespace, meta.name),)


def _name(obj: KubeObject) -> tuple[str, ...]:
    return (obj.metadata.name,)


_NODE_POOLS: Final = Owned(
    NODE_POOLS, references=References("node-pool", _pool_names, _name), optional=True
)
"""All NodePools, including those of other owners under the name of a Workspace's."""


_WORKLOADS: Final[tuple[Owned[Any], ...]] = (
    Owned(REVISIONS, label_selector=labels.REVISION_OF),
    Owned(SERVICES),
    Owned(STATEFUL_SETS),
    Owned(DEPLOYMENTS),
    Owned(JOBS, label_selector=labels.WORKSPACE),
    Owned(PODS, label_selector=labels.WORKSPACE, also_enqueues=_named_workspace),
    Owned(
        OPTIONS_MAPS, references=References("config", config_keys, lambda obj: (obj.metadata.key,))
    ),
    Owned(STORAGE_CLASSES, optional=True),
)


def watches(options: KaitoOptions) -> tuple[Owned[Any], ...]:
    """Return the watched resources, which depend on the provisioner and on the gates."""
    if options.inference_pools:
        return (*watches(replace(options, inference_pools=False)), inference_pool.WATCH)
    match options.provisioner:
        case Provisioner.OWN_NODES:
            return (_OWN_NODES, *_WORKLOADS)
        case Provisioner.NODE_CLAIMS:
            return (_CLAIMS, _CLAIMED_NODES, *_WORKLOADS)
        case Provisioner.NODE_POOLS:
            classes = _node_classes(options)
            return (_CLAIMS, _POOL_CLAIMS, _NODE_POOLS, classes, _ALL_NODES, *_WORKLOADS)


def _node_classes(options: KaitoOptions) -> Owned[Any]:
    """Return the watch of NodeClasses, whose events enqueue the Workspaces that use them."""
    settings = options.node_classes

    def chosen(workspace: Workspace) -> tuple[str, ...]:
        return (settings.chosen_name(workspace.metadata.annotations or {}),)

    references = References("node-class", chosen, _name)
    return Owned(settings.resource, references=references, optional=True)
