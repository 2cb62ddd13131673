"""Names and addresses of the objects of one RayCluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.apimachinery.ownership import owner_reference
from controller.ray.api import labels
from controller.ray.api.names import checked_label, checked_name
from controller.ray.api.ports import GCS_PORT
from controller.ray.api.raycluster import RAYCLUSTERS

if TYPE_CHECKING:
    from controller.ray.api.raycluster import ClusterSpec, HeadGroup, RayCluster, WorkerGroup

HEAD_SCOPE = "head"
SERVE_LABEL_SCOPE = "PodServeLabel"
"""End of the scope of a write to the label of a head or a worker; KubeRay's noun for it."""
_WORKERS = "worker/"
_FIXED_LABELS = (labels.CLUSTER, labels.NODE_TYPE, labels.GROUP)


def worker_scope(group: str) -> str:
    """Return the scope of a worker group's pods, for expectations."""
    return f"{_WORKERS}{group}"


def is_of_pods(scope: str) -> bool:
    """Return whether this is a scope of pods."""
    return scope == HEAD_SCOPE or scope.startswith(_WORKERS)


@dataclass(frozen=True, slots=True)
class Identity:
    """Names and addresses of one cluster's objects.

    Attributes:
        name: name of the RayCluster.
        namespace: namespace of the RayCluster and of all its objects.
        uid: uid of the RayCluster.
        origin: kind that created it: `RayJob`, `RayService`, or `RayCluster` if a user did.
        owner: the controller owner reference of its objects, plain data.
        head_service: name of the service in front of the head.
        head_fqdn: DNS name of that service.
        gcs_port: port of the GCS on the head.
        service_account: service account of the head pod, for the autoscaler.
    """

    name: str
    namespace: str
    uid: str
    origin: str
    owner: dict[str, Any]
    head_service: str
    head_fqdn: str
    gcs_port: str
    service_account: str

    @classmethod
    def of(cls, cluster: RayCluster, spec: ClusterSpec, *, domain: str) -> Identity:
        """Return the identity that follows from the object; `domain` is the DNS domain."""
        meta, head = cluster.metadata, spec.head_group_spec
        custom_service = (head.head_service or {}).get("metadata", {}).get("name")
        service = custom_service or f"{meta.name}-head-svc"
        account = head.template.get("spec", {}).get("serviceAccountName") or meta.name
        origin = (meta.labels or {}).get(labels.ORIGIN_KIND, "")
        return cls(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            origin=origin if origin in labels.ORIGIN_KINDS else "RayCluster",
            owner=owner_reference(RAYCLUSTERS, meta),
            head_service=service,
            head_fqdn=f"{service}.{meta.namespace}.svc.{domain}",
            gcs_port=(head.ray_start_params or {}).get("port") or str(GCS_PORT),
            service_account=checked_name(account),
        )

    @property
    def head_address(self) -> str:
        """`host:port` of the GCS."""
        return f"{self.head_fqdn}:{self.gcs_port}"

    def pod_labels(self, node_type: str, group: str) -> dict[str, str]:
        """Return the labels of a Ray pod without those of its template."""
        return {
            labels.CLUSTER: self.name,
            labels.NODE_TYPE: node_type,
            labels.GROUP: group,
            labels.IS_RAY_NODE: "yes",
            labels.IDENTIFIER: checked_label(f"{self.name}-{node_type}"),
            labels.APP_NAME: labels.APP_NAME_VALUE,
            labels.CREATED_BY: labels.CREATED_BY_VALUE,
        }

    def labels_of(
        self, node_type: str, group_name: str, group: HeadGroup | WorkerGroup
    ) -> dict[str, str]:
        """Return the labels with those of template and group, which override no selected one."""
        defaults = self.pod_labels(node_type, group_name)
        given: dict[str, str] = group.template.get("metadata", {}).get("labels", {})
        merged = defaults | given | (group.labels or {})
        return merged | {key: defaults[key] for key in _FIXED_LABELS}
