"""The body of a NodePool: as many nodes as a Workspace needs, and all alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.ownership import OWNER_UID
from controller.kaito.api import labels
from controller.kaito.api.karpenter.nodepool import NODE_POOLS
from controller.kaito.provisioning.names import node_pool_name
from controller.kaito.provisioning.node_claim import NODE_TAINT

if TYPE_CHECKING:
    from controller.kaito.api.karpenter.node_class import NodeClassSettings
    from controller.kaito.provisioning.node_claim import NodeRequest
    from controller.kube.objects import ObjectMeta

_AZURE: Final = "karpenter.azure.com"


def node_pool_body(
    workspace: ObjectMeta, request: NodeRequest, replicas: int, classes: NodeClassSettings
) -> dict[str, Any]:
    """Return the body that is created: Kaito's, besides the uid of the Workspace and the mark.

    `expireAfter` is written, because without it Karpenter replaces nodes after 30 days (KAI-1).

    Args:
        workspace: the owner, which a cluster-scoped object names in labels.
        request: the nodes.
        replicas: number of them.
        classes: the NodeClasses of the cluster.
    """
    owner = _owner_labels(workspace)
    manager = {labels.POOL_MANAGED_BY: labels.POOL_MANAGER}
    return {
        "apiVersion": NODE_POOLS.api_version,
        "kind": NODE_POOLS.kind,
        "metadata": {
            "name": node_pool_name(workspace.namespace, workspace.name),
            "labels": {**manager, **owner},
            "annotations": {labels.NODE_TEMPLATE: request.template},
        },
        "spec": {
            "replicas": replicas,
            "template": {
                "metadata": {"labels": {**request.node_labels, **owner}},
                "spec": {
                    "expireAfter": "Never",
                    "nodeClassRef": {
                        "group": classes.group,
                        "kind": classes.kind,
                        "name": classes.chosen_name(workspace.annotations or {}),
                    },
                    "requirements": _requirements(request, classes),
                    "taints": [dict(NODE_TAINT)],
                },
            },
            "disruption": {"consolidateAfter": "0s", "budgets": [_drift_budget(workspace)]},
        },
    }


def _owner_labels(workspace: ObjectMeta) -> dict[str, str]:
    own = {
        labels.POOL_WORKSPACE: workspace.name,
        labels.POOL_WORKSPACE_NAMESPACE: workspace.namespace,
        OWNER_UID: workspace.uid,
    }
    inference_set = _inference_set(workspace)
    if inference_set is not None:
        own[labels.POOL_INFERENCE_SET] = inference_set
        own[labels.POOL_INFERENCE_SET_NAMESPACE] = workspace.namespace
    return own


def _inference_set(workspace: ObjectMeta) -> str | None:
    """Return the InferenceSet that has created the Workspace; None if none has."""
    return (workspace.labels or {}).get(labels.CREATED_BY_INFERENCE_SET)


def _drift_budget(workspace: ObjectMeta) -> dict[str, Any]:
    """Return how many nodes Karpenter may replace at a time because they have drifted.

    Replicas of an InferenceSet would all be replaced at once, so there it replaces none.
    """
    nodes = "1" if _inference_set(workspace) is None else "0"
    return {"nodes": nodes, "reasons": ["Drifted"]}


def _requirements(request: NodeRequest, classes: NodeClassSettings) -> list[dict[str, Any]]:
    requirements = [
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [request.instance_type]}
    ]
    if classes.group == _AZURE:
        requirements.append(
            {"key": labels.AZURE_PLACEMENT_SCOPE, "operator": "In", "values": ["regional"]}
        )
    return requirements
