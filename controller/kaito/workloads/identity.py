"""Names, labels and owners of the objects that a Workspace creates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.ownership import owner_reference
from controller.kaito.api import labels
from controller.kaito.api.workspace import WORKSPACES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.workloads.pods.pod_parts import Body
    from controller.kube.objects import ObjectMeta
    from controller.kube.resources import Resource

_INHERITED = (
    labels.CREATED_BY_INFERENCE_SET,
    labels.CREATED_BY_MULTI_ROLE,
    labels.INFERENCE_ROLE,
)


def child(
    resource: Resource[Any],
    workspace: ObjectMeta,
    name: str,
    *,
    own_labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Body:
    """Return the head of a body: kind, names, and the Workspace as its controller."""
    metadata: Body = {"name": name, "namespace": workspace.namespace}
    if own_labels:
        metadata["labels"] = dict(own_labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    metadata["ownerReferences"] = [owner_reference(WORKSPACES, workspace)]
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def pod_labels(workspace: ObjectMeta) -> dict[str, str]:
    """Return the labels of the pods, which also select them."""
    inherited = workspace.labels or {}
    found = {key: inherited[key] for key in _INHERITED if key in inherited}
    return {labels.WORKSPACE: workspace.name, **found}


def headless_service_name(workspace_name: str) -> str:
    """Return the service that gives pods their names in the cluster's DNS."""
    return f"{workspace_name}-headless"


def leader_host(workspace: ObjectMeta) -> str:
    """Return the name of the first pod in the cluster's DNS."""
    name, namespace = workspace.name, workspace.namespace
    return f"{name}-0.{headless_service_name(name)}.{namespace}.svc.cluster.local"
