"""Partial, immutable views of Kubernetes objects: only the fields that Manta reads.

The views are decoded directly from the bytes of the API server. They have no encoder, because a
view lacks fields of its object and must never be PUT. Manta writes plain dictionaries.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec


class View(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True):
    """A leaf of a partial view: immutable, unknown fields ignored, every field optional."""


class OwnerReference(View, frozen=True):
    """`metadata.ownerReferences[]`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(View, frozen=True):
    """`metadata`, without `managedFields`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped objects."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def terminating(self) -> bool:
        """True if the object has a deletion timestamp and still exists."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`, if there is one."""
        for reference in self.owner_references:
            if reference.controller:
                return reference
        return None


class KubeObject(View, frozen=True):
    """The fields of every object. Used directly where nothing else is read."""

    metadata: ObjectMeta = ObjectMeta()


T = TypeVar("T", bound=KubeObject)


class ObjectList(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list.

    Attributes:
        continue_: token for the next page, empty on the last page.
    """

    items: list[T]
    resource_version: str
    continue_: str


class Condition(View, frozen=True):
    """`status.conditions[]` of most kinds."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None


# Pods, and the workloads of which they are made.


# Pods, their containers and their states.

RAY_PORT: Final = "RAY_PORT"
"""The variable whose value is kept: the port of the GCS that the pod was created for."""


class ContainerPort(View, frozen=True):
    """`spec.containers[].ports[]`."""

    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class ContainerResources(View, frozen=True):
    """`spec.containers[].resources`."""

    limits: dict[str, Any] | None = None


class ContainerVariable(View, frozen=True):
    """`spec.containers[].env[]`; `Container` empties the value."""

    name: str = ""
    value: str = ""


class Container(View, frozen=True):
    """`spec.containers[]`: what probes, services, upgrades and the kubelet need.

    Variables have no value but that of `RAY_PORT`: others may be secrets.
    """

    name: str = ""
    image: str = ""
    env: tuple[ContainerVariable, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ContainerResources = ContainerResources()

    def __post_init__(self) -> None:  # noqa: D105
        for entry in self.env:
            if entry.value and not (entry.name == RAY_PORT and entry.value.isdecimal()):
                msgspec.structs.force_setattr(entry, "value", "")


class Toleration(View, frozen=True):
    """`spec.tolerations[]`."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class PodSpec(View, frozen=True):
    """`spec` of a Pod."""

    node_name: str = ""
    service_account_name: str = ""
    restart_policy: str = "Always"
    tolerations: tuple[Toleration, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    termination_grace_period_seconds: int | None = None

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init containers and containers."""
        return self.init_containers + self.containers


class ContainerStateTerminated(View, frozen=True):
    """`state.terminated`."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str | None = None


class ContainerStateWaiting(View, frozen=True):
    """`state.waiting`."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(View, frozen=True):
    """`state.running`."""

    started_at: str | None = None


class ContainerState(View, frozen=True):
    """`status.containerStatuses[].state`: at most one member is set."""

    running: ContainerStateRunning | None = None
    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(View, frozen=True):
    """`status.containerStatuses[]`."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(View, frozen=True):
    """`status` of a Pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    start_time: str | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(KubeObject, frozen=True):
    """A Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# Jobs, StatefulSets and their revisions.


class ControllerRevision(KubeObject, frozen=True):
    """A ControllerRevision without its data, which may be as large as the object it belongs to."""

    revision: int = 0


class BatchJobSpec(View, frozen=True):
    """`spec` of a Job. The template stays plain data, because it is copied into pods."""

    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    suspend: bool | None = None
    selector: dict[str, Any] | None = None
    template: dict[str, Any] | None = None


class BatchJobStatus(View, frozen=True):
    """`status` of a Job."""

    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Condition, ...] = ()


class Job(KubeObject, frozen=True):
    """A Job."""

    spec: BatchJobSpec = BatchJobSpec()
    status: BatchJobStatus = BatchJobStatus()


class ProbeCommand(View, frozen=True):
    """`exec` of a probe."""

    command: tuple[str, ...] = ()


class ContainerProbe(View, frozen=True):
    """A probe, as far as it runs a command."""

    exec: ProbeCommand | None = None


class ServerContainer(View, frozen=True):
    """`spec.template.spec.containers[]` of a StatefulSet: what an update of the server needs."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    startup_probe: ContainerProbe | None = None


class ServerPodSpec(View, frozen=True):
    """`spec.template.spec` of a StatefulSet."""

    containers: tuple[ServerContainer, ...] = ()


class ServerTemplate(View, frozen=True):
    """`spec.template` of a StatefulSet."""

    spec: ServerPodSpec = ServerPodSpec()


class StatefulSetSelector(View, frozen=True):
    """`spec.selector` of a StatefulSet."""

    match_labels: dict[str, str] | None = None


class StatefulSetSpec(View, frozen=True):
    """`spec` of a StatefulSet."""

    replicas: int | None = None
    selector: StatefulSetSelector = StatefulSetSelector()
    template: ServerTemplate = ServerTemplate()
    volume_claim_templates: tuple[KubeObject, ...] = ()


class StatefulSetStatus(View, frozen=True):
    """`status` of a StatefulSet."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0


class StatefulSet(KubeObject, frozen=True):
    """A StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


# Nodes, namespaces and secrets; services and what leads to them.


# Namespaces, nodes, roles and definitions, and the data that pods read and store.


class ClaimResources(View, frozen=True):
    """`spec.resources` of a PersistentVolumeClaim."""

    requests: dict[str, str | int | float] | None = None


class ClaimSpec(View, frozen=True):
    """`spec` of a PersistentVolumeClaim."""

    access_modes: tuple[str, ...] = ()
    storage_class_name: str | None = None
    resources: ClaimResources = ClaimResources()


class PersistentVolumeClaim(KubeObject, frozen=True):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()


class ConfigMap(KubeObject, frozen=True):
    """A ConfigMap."""

    data: dict[str, str] | None = None


class FieldsWriter(View, frozen=True):
    """`metadata.managedFields[]`: who wrote which fields last, by their names alone."""

    manager: str = ""
    fields: dict[str, Any] | None = msgspec.field(default=None, name="fieldsV1")


class SecretMeta(ObjectMeta, frozen=True):
    """`metadata` of a Secret."""

    managed_fields: tuple[FieldsWriter, ...] = ()


class Secret(KubeObject, frozen=True):
    """A Secret without its data, so that the process never holds secrets."""

    metadata: SecretMeta = SecretMeta()


def secret_text(secret: Mapping[str, Any], key: str) -> str:
    """Return a text in a Secret as the API server sends it; empty if there is none, or no text."""
    data: Mapping[str, Any] = secret.get("data") or {}
    try:
        return b64decode(data[key], validate=True).decode().strip()
    except (KeyError, TypeError, ValueError):
        return ""


class NamespaceStatus(View, frozen=True):
    """`status` of a Namespace."""

    phase: str = ""


class NamespaceSpec(View, frozen=True):
    """`spec` of a Namespace."""

    finalizers: tuple[str, ...] = ()


class Namespace(KubeObject, frozen=True):
    """A Namespace."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class Taint(View, frozen=True):
    """`spec.taints[]` of a Node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(View, frozen=True):
    """`spec` of a Node: who may not run there."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class Node(KubeObject, frozen=True):
    """A Node."""

    spec: NodeSpec = NodeSpec()


class Role(KubeObject, frozen=True):
    """A Role. The API server writes null if there are no rules."""

    rules: tuple[dict[str, Any], ...] | None = None


class RoleBinding(KubeObject, frozen=True):
    """A RoleBinding."""

    subjects: tuple[dict[str, Any], ...] | None = None
    role_ref: dict[str, Any] | None = None


class CustomResourceDefinition(KubeObject, frozen=True):
    """A CustomResourceDefinition; the specification stays plain data."""

    spec: dict[str, Any] | None = None


# Services, and what brings requests to them: Ingresses, Routes and Gateways.


class ServicePort(View, frozen=True):
    """`spec.ports[]` of a Service."""

    name: str = ""
    port: int = 0
    target_port: int | str = 0
    node_port: int = 0
    protocol: str = "TCP"
    app_protocol: str | None = None


class ServiceSpec(View, frozen=True):
    """`spec` of a Service, complete: a user may set any field."""

    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] | None = None
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False
    allocate_load_balancer_node_ports: bool | None = None
    cluster_ips: tuple[str, ...] = msgspec.field(default=(), name="clusterIPs")
    external_ips: tuple[str, ...] = msgspec.field(default=(), name="externalIPs")
    external_name: str = ""
    external_traffic_policy: str = ""
    health_check_node_port: int = 0
    internal_traffic_policy: str = ""
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str = ""
    load_balancer_class: str = ""
    load_balancer_ip: str = msgspec.field(default="", name="loadBalancerIP")
    load_balancer_source_ranges: tuple[str, ...] = ()
    session_affinity: str = ""
    session_affinity_config: dict[str, Any] | None = None
    traffic_distribution: str = ""


class Service(KubeObject, frozen=True):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()


class IngressSpec(View, frozen=True):
    """`spec` of an Ingress. Rules stay plain data, because they are only compared."""

    ingress_class_name: str | None = None
    rules: tuple[dict[str, Any], ...] = ()
    tls: tuple[dict[str, Any], ...] = ()


class Ingress(KubeObject, frozen=True):
    """An Ingress."""

    spec: IngressSpec = IngressSpec()


class NetworkPolicySpec(View, frozen=True):
    """`spec` of a NetworkPolicy. Its selectors and rules stay plain data."""

    pod_selector: dict[str, Any] | None = None
    policy_types: tuple[str, ...] = ()
    ingress: tuple[dict[str, Any], ...] = ()
    egress: tuple[dict[str, Any], ...] = ()


class NetworkPolicy(KubeObject, frozen=True):
    """A NetworkPolicy."""

    spec: NetworkPolicySpec = NetworkPolicySpec()


class DisruptionBudgetSpec(View, frozen=True):
    """`spec` of a PodDisruptionBudget; its selector stays plain data. None selects nothing."""

    min_available: int | str | None = None
    selector: dict[str, Any] | None = None


class PodDisruptionBudget(KubeObject, frozen=True):
    """A PodDisruptionBudget."""

    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()


class GangSpec(View, frozen=True):
    """`spec` of a PodGroup of Volcano or scheduler-plugins: how much must fit at once."""

    min_member: int = 0
    min_resources: dict[str, Any] | None = None


class Gang(KubeObject, frozen=True):
    """A PodGroup of Volcano or scheduler-plugins."""

    spec: GangSpec = GangSpec()


class WorkloadSpec(View, frozen=True):
    """`spec` of a Workload. Its templates stay plain data."""

    pod_group_templates: tuple[dict[str, Any], ...] = ()


class Workload(KubeObject, frozen=True):
    """A Workload of Kubernetes' own API of this name."""

    spec: WorkloadSpec = WorkloadSpec()


class PodGroupSpec(View, frozen=True):
    """`spec` of a PodGroup of Kubernetes' own API. Its policy stays plain data."""

    scheduling_policy: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class PodGroup(KubeObject, frozen=True):
    """A PodGroup of Kubernetes' own API."""

    spec: PodGroupSpec = PodGroupSpec()


class SecretTemplate(View, frozen=True):
    """`spec.secretTemplate` of a Certificate."""

    labels: dict[str, str] | None = None


class CertificateSpec(View, frozen=True):
    """`spec` of a Certificate: for whom it is, and the labels of its Secret."""

    dns_names: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    secret_template: SecretTemplate | None = None


class CertificateStatus(View, frozen=True):
    """`status` of a Certificate."""

    conditions: tuple[Condition, ...] = ()
    not_after: str | None = None


class Certificate(KubeObject, frozen=True):
    """A Certificate of cert-manager."""

    spec: CertificateSpec = CertificateSpec()
    status: CertificateStatus = CertificateStatus()


class RouteSpec(View, frozen=True):
    """`spec` of an OpenShift Route."""

    to: dict[str, Any] | None = None
    port: dict[str, Any] | None = None
    wildcard_policy: str = ""


class Route(KubeObject, frozen=True):
    """An OpenShift Route."""

    spec: RouteSpec = RouteSpec()


class GatewaySpec(View, frozen=True):
    """`spec` of a Gateway. Listeners stay plain data."""

    gateway_class_name: str = ""
    listeners: tuple[dict[str, Any], ...] = ()


class GatewayStatus(View, frozen=True):
    """`status` of a Gateway. Addresses stay plain data."""

    addresses: tuple[dict[str, Any], ...] = ()
    conditions: tuple[Condition, ...] = ()


class Gateway(KubeObject, frozen=True):
    """A Gateway of the Gateway API."""

    spec: GatewaySpec = GatewaySpec()
    status: GatewayStatus = GatewayStatus()


class HTTPRouteSpec(View, frozen=True):
    """`spec` of an HTTPRoute. Lists stay plain data."""

    parent_refs: tuple[dict[str, Any], ...] = ()
    hostnames: tuple[str, ...] = ()
    rules: tuple[dict[str, Any], ...] = ()


class RouteParentStatus(View, frozen=True):
    """`status.parents[]` of an HTTPRoute: what the controller of one parent reports."""

    parent_ref: dict[str, Any]
    controller_name: str = ""
    conditions: tuple[Condition, ...] = ()


class HTTPRouteStatus(View, frozen=True):
    """`status` of an HTTPRoute."""

    parents: tuple[RouteParentStatus, ...] = ()


class HTTPRoute(KubeObject, frozen=True):
    """An HTTPRoute of the Gateway API."""

    spec: HTTPRouteSpec = HTTPRouteSpec()
    status: HTTPRouteStatus = HTTPRouteStatus()
