"""The head incarnation: one head pod with its number of restarts.

A head that was replaced or restarted in place is a new incarnation. Jobs that ran on the old one
are lost, unless the GCS is fault tolerant. The incarnation of an attempt is stored in an annotation
of the RayJob, because KubeRay's CRD prunes unknown fields of the status.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.apimachinery.ownership import is_owned_by
from controller.apimachinery.problem import Problem
from controller.apimachinery.template import read_template, service_problem
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import labels
from controller.ray.api.pod_state import is_on_lost_node, ray_status
from controller.ray.api.ports import DASHBOARD_PORT
from controller.ray.api.raycluster import parse_spec
from controller.ray.api.token import token_secret_name
from controller.ray.dashboard import Head
from controller.ray.head.endpoint import chosen_head, has_ended
from controller.ray.head.identity import Identity
from controller.ray.head.watches import HEAD_INDEX

if TYPE_CHECKING:
    from controller.kube.objects import Pod, Service
    from controller.ray.api.raycluster import ClusterSpec, RayCluster
    from controller.runtime.kind import CacheReader


@dataclass(frozen=True, slots=True)
class HeadIncarnation:
    """A head that is running or starting.

    Attributes:
        pod: its pod.
        dashboard: its dashboard, as that of this incarnation.
        address: `host:port` of the dashboard inside the cluster: `status.dashboardURL`.
        terminating: whether it is being deleted, or its node is lost.
    """

    pod: Pod
    dashboard: Head
    address: str
    terminating: bool = False

    @property
    def id(self) -> str:
        """Pod uid and number of restarts, without spaces."""
        return f"{self.dashboard.pod_uid}/{self.dashboard.restarts}"


def read_cluster_spec(cluster: RayCluster) -> ClusterSpec | None:
    """Return the specification; None if it is malformed, so that no pods exist."""
    try:
        spec = parse_spec(cluster)
    except ValueError:
        return None
    head, path = spec.head_group_spec, "spec.headGroupSpec"
    template = read_template(head.template, path)
    malformed = isinstance(template, Problem) or service_problem(head.head_service, path)
    return None if malformed else spec


def find_head(
    cluster: RayCluster, spec: ClusterSpec, reads: CacheReader, *, domain: str
) -> HeadIncarnation | None:
    """Return the live head of a cluster, None if there is none; `domain` is the DNS domain."""
    meta = cluster.metadata
    pods = (
        pod
        for pod in reads.by_index(PODS, HEAD_INDEX, meta.key)
        if is_owned_by(pod.metadata, meta.uid)
    )
    pod = chosen_head(pod for pod in pods if not has_ended(pod))
    if pod is None:
        return None
    identity = Identity.of(cluster, spec, domain=domain)
    service = reads.get(SERVICES, f"{meta.namespace}/{identity.head_service}")
    port = _dashboard_port(service)
    return HeadIncarnation(
        pod,
        Head(
            cluster_uid=meta.uid,
            pod_uid=pod.metadata.uid,
            restarts=_restarts(pod),
            namespace=meta.namespace,
            service=identity.head_service,
            port=port,
            token_secret=_token_secret(cluster, spec),
        ),
        f"{identity.head_fqdn}:{port}",
        terminating=pod.metadata.terminating or is_on_lost_node(pod),
    )


def find_ended_head(cluster: RayCluster, reads: CacheReader) -> Pod | None:
    """Return the head of a cluster without a live one; None if no pod is left."""
    meta = cluster.metadata
    pods = reads.by_index(PODS, HEAD_INDEX, meta.key)
    return chosen_head(pod for pod in pods if is_owned_by(pod.metadata, meta.uid))


def _restarts(pod: Pod) -> int:
    status = ray_status(pod)
    return status.restart_count if status is not None else 0


def _dashboard_port(service: Service | None) -> int:
    for port in service.spec.ports if service is not None else ():
        if port.name == "dashboard":
            return port.port
    return DASHBOARD_PORT


def _token_secret(cluster: RayCluster, spec: ClusterSpec) -> str:
    auth = spec.auth_options
    if auth is None or not auth.by_token or auth.by_kubernetes:
        return ""
    return token_secret_name(cluster.metadata.name, auth)


def is_gcs_fault_tolerant(cluster: RayCluster, spec: ClusterSpec) -> bool:
    """Return whether the GCS state outlives the head, so that a new head may know the job."""
    by_annotation = (cluster.metadata.annotations or {}).get(labels.FT_ENABLED, "").lower()
    return spec.gcs_fault_tolerance_options is not None or by_annotation == "true"
