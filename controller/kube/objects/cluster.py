"""Nodes, namespaces and secrets; services and what leads to them."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.kube.objects.metadata import Condition, KubeObject, ObjectMeta, View

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
