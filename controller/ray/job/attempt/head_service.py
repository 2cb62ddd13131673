"""`<rayjob>-head-svc`, the service for the head of the present attempt's cluster."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.ownership import owner_reference
from controller.ray.api import labels
from controller.ray.api.names import checked_label
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.head.identity import Identity
from controller.ray.head.service import head_service
from controller.ray.job.attempt.names import head_service_name

if TYPE_CHECKING:
    from controller.ray.api.raycluster import ClusterSpec, RayCluster
    from controller.ray.api.rayjob import RayJob
    from controller.ray.job.settings import JobSettings

Body = dict[str, Any]

_EXCLUSIVE_FIELDS: Final = ("clusterIP", "clusterIPs", "loadBalancerIP", "healthCheckNodePort")
"""Fields of the cluster's head service that a second service must not repeat."""


def job_head_service(
    job: RayJob, cluster: RayCluster, spec: ClusterSpec, settings: JobSettings
) -> Body:
    """The service for a job whose attempt runs on `cluster`; `spec` is the cluster's, parsed."""
    identity = Identity.of(cluster, spec, domain=settings.cluster_domain)
    body = head_service(
        spec,
        identity,
        identity.labels_of(labels.HEAD, labels.HEAD_GROUP, spec.head_group_spec),
        cluster_ip=settings.head_cluster_ip_service,
    )
    metadata: Body = {
        "name": head_service_name(job.metadata),
        "namespace": job.metadata.namespace,
        "labels": {
            labels.ORIGIN_NAME: job.metadata.name,
            labels.ORIGIN_KIND: RAYJOBS.kind,
            labels.NODE_TYPE: labels.HEAD,
            labels.IDENTIFIER: checked_label(f"{job.metadata.name}-{labels.HEAD}"),
        },
        "ownerReferences": [owner_reference(RAYJOBS, job.metadata)],
    }
    if annotations := body["metadata"].get("annotations"):
        metadata["annotations"] = annotations
    return {**body, "metadata": metadata, "spec": _without_exclusive_fields(body["spec"])}


def _without_exclusive_fields(service_spec: Body) -> Body:
    """The specification without fields that only one service can have."""
    kept = copy.deepcopy(service_spec)
    headless = kept.get("clusterIP") == "None"
    for name in _EXCLUSIVE_FIELDS:
        kept.pop(name, None)
    for port in kept["ports"]:
        port.pop("nodePort", None)
    return kept | ({"clusterIP": "None"} if headless else {})
