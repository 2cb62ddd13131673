"""The head to which the services, routes and grants of a cluster lead: the one that exists.

A template may be edited while its head keeps running as it was created. What points to the head
follows the pod, and the new template once a head of it exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from controller.apimachinery.metadata import is_owned_by, owner_reference
from controller.apimachinery.validation import Problem, read_template, service_problem
from controller.kube.objects import RAY_PORT, KubeObject, Pod, Service
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import labels
from controller.ray.api.names import (
    AUTOSCALER,
    DASHBOARD_PORT,
    GCS_PORT,
    METRICS_PORT,
    checked_label,
    checked_name,
)
from controller.ray.api.pod_state import (
    gcs_port,
    is_head,
    is_on_lost_node,
    is_ready,
    ray_container,
    ray_status,
)
from controller.ray.api.raycluster import (
    RAYCLUSTERS,
    ClusterSpec,
    HeadGroup,
    RayCluster,
    WorkerGroup,
    parse_spec,
    token_secret_name,
)
from controller.ray.dashboard import Head
from controller.runtime.kind import CacheReader, Owned

# Names and addresses of the objects of one RayCluster.

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


class Identity(Struct, frozen=True):
    """Names and addresses of one cluster's objects.

    Attributes:
        origin: kind that created it: `RayJob`, `RayService`, or `RayCluster` if a user did.
        owner: the controller owner reference of its objects, plain data.
        head_fqdn: DNS name of that service.
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


_DEFAULT_PORTS: Final = {
    "client": 10001,
    "gcs-server": GCS_PORT,
    "dashboard": DASHBOARD_PORT,
    "metrics": METRICS_PORT,
    "serve": 8000,
}
_ADDED: Final = {"metrics": METRICS_PORT}
"""The port that every head gets."""
_FIXED: Final = (labels.CLUSTER, labels.NODE_TYPE)
"""Labels without which a selector would find pods of another cluster or role."""
_CHANGEABLE: Final = (labels.IDENTIFIER, labels.APP_NAME, labels.CREATED_BY)
_OVER: Final = frozenset({"Failed", "Succeeded"})


class HeadEndpoint(Struct, frozen=True):
    """What others need to know of a head in order to point to it.

    Attributes:
        selector: the labels by which a service selects it.
        service_accounts: the accounts with which its autoscaler may run.
    """

    selector: Mapping[str, str]
    ports: Mapping[str, int]
    service_accounts: tuple[str, ...]

    @property
    def dashboard_port(self) -> int:
        """The port of the dashboard."""
        return self.ports.get("dashboard", DASHBOARD_PORT)

    @property
    def serve_ports(self) -> dict[str, int]:
        """The ports for Ray Serve, by name."""
        return serve_ports(self.ports)


def head_endpoint(spec: ClusterSpec, identity: Identity, pods: Iterable[Pod]) -> HeadEndpoint:
    """Return the endpoint of the head among these pods; that of a new head if there is none."""
    heads = tuple(pods)
    head = chosen_head(heads)
    given = identity.labels_of(labels.HEAD, labels.HEAD_GROUP, spec.head_group_spec)
    found = given if head is None else head.metadata.labels or {}
    selector = {key: given[key] for key in _FIXED}
    accounts = {
        pod.spec.service_account_name
        for pod in heads
        if any(container.name == AUTOSCALER for container in pod.spec.containers)
    }
    return HeadEndpoint(
        selector | {key: found[key] for key in _CHANGEABLE if key in found},
        _ports_of(head, template_ports(spec)),
        tuple(sorted({identity.service_account, *accounts} - {""})),
    )


def head_ports(spec: ClusterSpec, pods: Iterable[Pod]) -> dict[str, int]:
    """Return the ports of the head among these pods; those of a new head if there is none."""
    return _ports_of(chosen_head(pods), template_ports(spec))


def gcs_port_of(spec: ClusterSpec, identity: Identity, pods: Iterable[Pod]) -> str:
    """Return the port of the GCS of the head among these pods; that of a new head if there is none.

    A head that is terminating, or that nothing restarts, is none: a new one takes its place.
    """
    stays = (p for p in pods if not p.metadata.terminating and p.status.phase not in _OVER)
    head = chosen_head(stays)
    if head is None or sets_gcs_port(spec.head_group_spec):
        return identity.gcs_port
    return gcs_port(head) or identity.gcs_port


def sets_gcs_port(group: HeadGroup | WorkerGroup) -> bool:
    """Return whether the variable of the port, or the address of the head, is the user's own."""
    env = group.template["spec"]["containers"][0].get("env", ())
    own_address = "address" in (group.ray_start_params or {})
    return own_address or any(entry.get("name") == RAY_PORT for entry in env)


def serve_ports(ports: Mapping[str, int]) -> dict[str, int]:
    """Return those of a head's ports that are for Ray Serve."""
    return {
        name: number
        for name, number in ports.items()
        if name == "serve" or name.startswith("serve-")
    }


def template_ports(spec: ClusterSpec) -> dict[str, int]:
    """Return the ports of a new head: those of its Ray container, or Ray's defaults."""
    declared: dict[str, int] = {
        port.get("name") or _nameless(port["containerPort"]): port["containerPort"]
        for port in spec.head_group_spec.template["spec"]["containers"][0].get("ports", ())
    }
    ports = declared or dict(_DEFAULT_PORTS)
    ports.setdefault("metrics", METRICS_PORT)
    return ports


def _ports_of(head: Pod | None, wanted: dict[str, int]) -> dict[str, int]:
    """Return the ports of the head, and those that only the template names.

    Ray listens whether a port is declared or not, so that a declaration that was forgotten helps
    at once.
    """
    container = ray_container(head) if head is not None else None
    declared = {
        port.name or _nameless(port.container_port): port.container_port
        for port in (container.ports if container is not None else ())
    }
    if declared == _ADDED:  # all that a head has if its template declares none
        declared = wanted if wanted == _ADDED else dict(_DEFAULT_PORTS)
    taken = set(declared.values())
    return declared | {
        name: number
        for name, number in wanted.items()
        if name not in declared and number not in taken
    }


def _nameless(number: int) -> str:
    return f"{number}-port"


def chosen_head(heads: Iterable[Pod]) -> Pod | None:
    """Return the head of a cluster, while several exist; every part of Manta means this one."""
    found = tuple(heads)
    return found[0] if len(found) == 1 else min(found, key=_preference, default=None)


def has_ended(head: Pod) -> bool:
    """Return whether the Ray container has ended and has not been restarted yet."""
    status = ray_status(head)
    if head.status.phase in _OVER or status is None:
        return head.status.phase in _OVER
    has_run = status.last_state.terminated is not None
    return status.state.terminated is not None or (status.state.waiting is not None and has_run)


def _preference(head: Pod) -> tuple[bool, bool, bool, str, str]:
    """Order heads: one that stays first, then one whose Ray runs, that is ready, the oldest."""
    meta, unready = head.metadata, not is_ready(head)
    return meta.terminating, has_ended(head), unready, meta.creation_timestamp or "", meta.name


# The watches that all Ray kinds share: one selector and one set of indexes for each resource.
#
# Informers are shared, so all kinds must use the same selector for a resource.

HEAD_INDEX: Final = "head"
"""Index of head pods of any owner by the `namespace/cluster` of their labels."""


def head_keys(pod: Pod) -> Sequence[str]:
    """Index by `HEAD_INDEX`; yield the RayCluster that an event of the pod enqueues."""
    found = pod.metadata.labels or {}
    cluster, role = found.get(labels.CLUSTER), found.get(labels.NODE_TYPE)
    if role == labels.WORKER and found.get(labels.GROUP) != labels.HEAD_GROUP:
        return ()  # most pods, each of which is indexed and enqueues for several kinds
    return (f"{pod.metadata.namespace}/{cluster}",) if cluster and is_head(pod) else ()


def named_cluster(obj: KubeObject) -> Sequence[str]:
    """Return the RayCluster that a label names; it may wait until another object is gone."""
    meta = obj.metadata
    cluster = (meta.labels or {}).get(labels.CLUSTER)
    return (f"{meta.namespace}/{cluster}",) if cluster else ()


def _head_or_cleanup_keys(pod: Pod) -> Sequence[str]:
    """Yield the RayCluster that a head or a pod of a cleanup Job enqueues."""
    role = (pod.metadata.labels or {}).get(labels.NODE_TYPE)
    return named_cluster(pod) if role == labels.REDIS_CLEANUP else head_keys(pod)


_ROLES: Final = (labels.HEAD, labels.WORKER, labels.SUBMITTER, labels.REDIS_CLEANUP)

RAY_PODS: Final = Owned(
    PODS,
    label_selector=f"{labels.NODE_TYPE} in ({','.join(_ROLES)})",
    indexes={HEAD_INDEX: head_keys},
    also_enqueues=_head_or_cleanup_keys,
)


OUR_JOBS: Final = f"{labels.CREATED_BY}={labels.CREATED_BY_VALUE}"
"""Selector of the batch Jobs of all Ray kinds: Redis cleanup and submitters."""


# The head incarnation: one head pod with its number of restarts.
#
# A head that was replaced or restarted in place is a new incarnation. Jobs that ran on the old one
# are lost, unless the GCS is fault tolerant. The incarnation of an attempt is stored in an
# annotation of the RayJob, because KubeRay's CRD prunes unknown fields of the status.


class HeadIncarnation(Struct, frozen=True):
    """A head that is running or starting.

    Attributes:
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
    pod = chosen_head(pod for pod in _heads(cluster, reads) if not has_ended(pod))
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
    return chosen_head(_heads(cluster, reads))


def _heads(cluster: RayCluster, reads: CacheReader) -> list[Pod]:
    meta = cluster.metadata
    pods = reads.by_index(PODS, HEAD_INDEX, meta.key)
    return [pod for pod in pods if is_owned_by(pod.metadata, meta.uid)]


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
