"""The two stable services of a RayService: for the head, and for the applications.

They keep name and uid over every upgrade; only the cluster that they select changes.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.ownership import owner_reference
from controller.kube.resources import SERVICES
from controller.ray.api import labels
from controller.ray.api.names import checked_label
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.children.child import Child, OwnerConflict
from controller.ray.children.owned_fields import with_owned_fields
from controller.ray.children.service_fields import desired_service_fields
from controller.ray.head.identity import Identity
from controller.ray.head.service import head_service, serve_ports
from controller.ray.service.cluster.names import head_service_name, serve_service_name

if TYPE_CHECKING:
    from controller.ray.api.raycluster import ClusterSpec, RayCluster
    from controller.ray.api.rayservice import RayService, ServiceSpec
    from controller.ray.service.settings import ServiceSettings

Body = dict[str, Any]

_EXCLUSIVE_FIELDS: Final = ("clusterIP", "clusterIPs", "loadBalancerIP", "healthCheckNodePort")
"""Fields of the cluster's head service that a second service must not repeat."""


def stable_services(
    service: RayService,
    spec: ServiceSpec,
    cluster: RayCluster,
    cluster_spec: ClusterSpec,
    settings: ServiceSettings,
) -> tuple[Child, ...]:
    """Both services, leading to `cluster`, whose specification is `cluster_spec`."""
    bodies = (
        _head(service, cluster, cluster_spec, settings),
        _serve(service, spec, cluster, cluster_spec),
    )
    return tuple(
        Child(
            SERVICES,
            with_owned_fields(body),
            on_conflict=OwnerConflict.IGNORE,
            desired_fields=desired_service_fields,
        )
        for body in bodies
        if body is not None
    )


def _head(
    service: RayService, cluster: RayCluster, spec: ClusterSpec, settings: ServiceSettings
) -> Body:
    identity = Identity.of(cluster, spec, domain=settings.cluster_domain)
    head_labels = identity.labels_of(labels.HEAD, labels.HEAD_GROUP, spec.head_group_spec)
    body = head_service(spec, identity, head_labels, cluster_ip=settings.head_cluster_ip_service)
    own = {
        labels.NODE_TYPE: labels.HEAD,
        labels.IDENTIFIER: checked_label(f"{service.metadata.name}-{labels.HEAD}"),
    }
    metadata = _metadata(service, head_service_name(service.metadata), own)
    if annotations := body["metadata"].get("annotations"):
        metadata["annotations"] = annotations
    return {**body, "metadata": metadata, "spec": _without_exclusive_fields(body["spec"])}


def _serve(
    service: RayService, spec: ServiceSpec, cluster: RayCluster, cluster_spec: ClusterSpec
) -> Body | None:
    """The service of the applications; None if the head has no port for them."""
    given: Body = copy.deepcopy(spec.serve_service or {})
    user_ports: list[Body] = given.get("spec", {}).get("ports", [])
    ports = _ports(cluster_spec, user_ports)
    if not ports:
        return None
    name = given.get("metadata", {}).get("name") or serve_service_name(service.metadata)
    own = {labels.SERVE: f"{service.metadata.name}-serve"}
    metadata = _metadata(service, name, given.get("metadata", {}).get("labels", {}) | own)
    if annotations := given.get("metadata", {}).get("annotations"):
        metadata["annotations"] = annotations
    selector = {labels.CLUSTER: cluster.metadata.name, labels.SERVE: "true"}
    own_spec = {key: item for key, item in given.get("spec", {}).items() if key != "ports"}
    own_spec.setdefault("type", cluster_spec.head_group_spec.service_type or "ClusterIP")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {**own_spec, "selector": selector, "ports": ports},
    }


def _ports(spec: ClusterSpec, given: list[Body]) -> list[Body]:
    """The head's ports for Serve; a port of the user replaces the one of the same name."""
    by_name = {port.get("name"): port for port in given}
    own = [{"name": name, "port": port} for name, port in sorted(serve_ports(spec).items())]
    return [by_name.get(port["name"], port) for port in own] or given


def _metadata(service: RayService, name: str, own_labels: dict[str, str]) -> Body:
    meta = service.metadata
    origin = {labels.ORIGIN_NAME: meta.name, labels.ORIGIN_KIND: RAYSERVICES.kind}
    return {
        "name": name,
        "namespace": meta.namespace,
        "labels": own_labels | origin,
        "ownerReferences": [owner_reference(RAYSERVICES, meta)],
    }


def _without_exclusive_fields(service_spec: Body) -> Body:
    """The specification without fields that only one service can have."""
    kept = copy.deepcopy(service_spec)
    headless = kept.get("clusterIP") == "None"
    for name in _EXCLUSIVE_FIELDS:
        kept.pop(name, None)
    for port in kept["ports"]:
        port.pop("nodePort", None)
    return kept | ({"clusterIP": "None"} if headless else {})
