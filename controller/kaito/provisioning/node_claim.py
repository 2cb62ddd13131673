"""The body of a NodeClaim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.ownership import OWNER_UID
from controller.kaito.api import labels
from controller.kaito.api.karpenter.nodeclaim import NODE_CLAIMS
from controller.kaito.api.options import KaitoOptions, image_family
from controller.kaito.presets import Cloud, find_instance_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import ObjectMeta

NODE_TAINT: Final = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
_NODE_CLASSES: Final = {
    Cloud.AZURE: ("kaito.sh", "KaitoNodeClass"),
    Cloud.AWS: ("karpenter.k8s.aws", "EC2NodeClass"),
}
_NODE_CLASS: Final = "default"


class NoNodeClass(ValueError):  # noqa: N818 - reads as what it says
    """No nodes can be claimed in this cloud."""


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """The wanted properties of the nodes of a Workspace.

    Attributes:
        instance_type: their type.
        node_labels: labels that they get.
        storage: size of their disks, a quantity.
        image_family: what they run.
    """

    instance_type: str
    node_labels: Mapping[str, str]
    storage: str
    image_family: str

    @property
    def template(self) -> str:
        """A text that distinguishes sets of claims: another machine, or other labels."""
        words = [self.instance_type, *(f"{key}={self.node_labels[key]}" for key in self._keys)]
        return " ".join(words)

    @property
    def _keys(self) -> list[str]:
        return sorted(self.node_labels)


def can_claim(cloud: Cloud) -> bool:
    """Return whether nodes can be claimed in a cloud at all."""
    return cloud in _NODE_CLASSES


def node_request(
    instance_type: str,
    node_labels: Mapping[str, str],
    storage: str,
    annotations: Mapping[str, str],
    options: KaitoOptions,
) -> NodeRequest:
    """Return the request, with the type's name as the cloud and its nodes write it (KAI-7).

    Args:
        instance_type: as the user wrote it.
        node_labels: labels of the Workspace's selector, without reserved ones.
        storage: size of the disks.
        annotations: annotations of the Workspace.
        options: options of the operator.
    """
    known = find_instance_type(options.cloud, instance_type)
    family = image_family(annotations.get(labels.NODE_IMAGE_FAMILY, ""))
    return NodeRequest(
        known.name if known else instance_type,
        node_labels,
        storage,
        family or image_family(options.node_image_family) or "ubuntu",
    )


def node_claim_body(
    name: str, request: NodeRequest, workspace: ObjectMeta, cloud: Cloud
) -> dict[str, Any]:
    """Return the body that is created.

    It has no owner reference: a cluster-scoped object cannot be owned by a namespaced one.
    `expireAfter` is written, because without it Karpenter replaces nodes after 30 days (KAI-1).

    Raises:
        NoNodeClass: claims need a class of nodes, and this cloud has none.
    """
    if cloud not in _NODE_CLASSES:
        raise NoNodeClass(f"nodes cannot be claimed on {cloud.value}; bring your own nodes")
    group, kind = _NODE_CLASSES[cloud]
    return {
        "apiVersion": NODE_CLAIMS.api_version,
        "kind": NODE_CLAIMS.kind,
        "metadata": {
            "name": name,
            "labels": {
                labels.NODE_POOL: labels.KAITO_NODE_POOL,
                labels.WORKSPACE: workspace.name,
                labels.WORKSPACE_NAMESPACE: workspace.namespace,
                **request.node_labels,
                OWNER_UID: workspace.uid,
            },
            "annotations": {
                labels.DO_NOT_DISRUPT: "true",
                labels.NODE_IMAGE_FAMILY: request.image_family,
            },
        },
        "spec": {
            "expireAfter": "Never",
            "nodeClassRef": {"name": _NODE_CLASS, "kind": kind, "group": group},
            "taints": [dict(NODE_TAINT)],
            "requirements": _requirements(request, cloud),
            "resources": {"requests": {"storage": request.storage}},
        },
    }


def _requirements(request: NodeRequest, cloud: Cloud) -> list[dict[str, Any]]:
    requirements = [
        _requirement(labels.NODE_POOL, "In", labels.KAITO_NODE_POOL),
        _requirement(labels.INSTANCE_TYPE, "In", request.instance_type),
        _requirement(labels.OPERATING_SYSTEM, "In", "linux"),
    ]
    if cloud is Cloud.AZURE:
        requirements.append(_requirement(labels.AZURE_SKU, "In", request.instance_type))
    if cloud is Cloud.AWS:
        requirements.append(_requirement(labels.AWS_GPU_COUNT, "Gt", "0"))
    return requirements


def _requirement(key: str, operator: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": [value]}
