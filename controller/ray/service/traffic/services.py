"""The two stable services of a RayService: for the head, and for the applications.

They keep name and uid over every upgrade; only the cluster that they select changes.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from controller.apimachinery.ownership import owner_reference
from controller.kube.resources import SERVICES
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.children.child import Child, OwnerConflict
from controller.ray.children.owned_fields import with_owned_fields
from controller.ray.children.service_fields import desired_service_fields
from controller.ray.head.endpoint import head_ports, serve_ports
from controller.ray.head.stable_service import stable_head_service, stable_service_metadata
from controller.ray.service.names import cluster_serve_service_name, serve_service_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from controller.kube.objects import Pod, Service
    from controller.ray.api.raycluster import ClusterSpec, RayCluster
    from controller.ray.api.rayservice import RayService, RayServiceSpec
    from controller.ray.service.settings import ServiceSettings

Body = dict[str, Any]


def stable_services(
    service: RayService,
    spec: RayServiceSpec | None,
    cluster: RayCluster,
    cluster_spec: ClusterSpec,
    heads: Sequence[Pod],
    *,
    settings: ServiceSettings,
) -> tuple[Child, ...]:
    """Return both services for `cluster`, with its specification and its heads.

    Without a specification of the RayService, only that of the head is known.
    """
    bodies = (
        stable_head_service(
            RAYSERVICES,
            service.metadata,
            cluster,
            cluster_spec,
            heads,
            domain=settings.cluster_domain,
            cluster_ip=settings.head_cluster_ip_service,
        ),
        spec and _serve(service, spec.serve_service or {}, cluster, cluster_spec, heads),
    )
    return tuple(_child(body) for body in bodies if body is not None)


def former_services(
    present: Iterable[Service], wanted: Iterable[Child], cluster: str
) -> Iterator[Child]:
    """Yield services of the applications that come from an earlier specification.

    They select the same cluster as the present one until a user deletes them: clients may use them,
    and a selected cluster is not deleted.
    """
    names = {child.name for child in wanted}
    for each in _of_applications(present):
        if each.metadata.name not in names:
            yield _leading_to(cluster, each)


def fit_head(present: Iterable[Service], ports: Mapping[str, int]) -> bool:
    """Return whether there are services of the applications, all for these ports of a head."""
    known = {*ports, *ports.values()}
    found = [each.spec.ports for each in _of_applications(present)]
    targets = [port.target_port or port.port for each in found for port in each]
    return bool(found) and known.issuperset(targets)


def _of_applications(present: Iterable[Service]) -> Iterator[Service]:
    for each in present:
        if labels.SERVE in (each.spec.selector or {}) and not each.metadata.terminating:
            yield each


def _leading_to(cluster: str, present: Service) -> Child:
    """Return the service with only its selected cluster changed."""
    meta = present.metadata
    fields = (meta.annotations or {}).get(labels.OWNED_FIELDS)
    recorded = {} if fields is None else {"annotations": {labels.OWNED_FIELDS: fields}}
    body = {
        "metadata": {"name": meta.name, **recorded},
        "spec": {"selector": {**(present.spec.selector or {}), labels.CLUSTER: cluster}},
    }
    return Child(SERVICES, body, on_conflict=OwnerConflict.IGNORE)


def cluster_serve_service(
    service: RayService, cluster: RayCluster, spec: ClusterSpec, heads: Iterable[Pod]
) -> Child | None:
    """Return the service of one cluster's applications, for a route; the cluster owns it.

    None if the head has no port for them.
    """
    body = _serve(service, {}, cluster, spec, heads)
    if body is None:
        return None
    name = cluster_serve_service_name(cluster.metadata.name)
    own = {"name": name, "ownerReferences": [owner_reference(RAYCLUSTERS, cluster.metadata)]}
    return _child({**body, "metadata": body["metadata"] | own})


def _child(body: Body) -> Child:
    return Child(
        SERVICES,
        with_owned_fields(body),
        on_conflict=OwnerConflict.IGNORE,
        desired_fields=desired_service_fields,
    )


def _serve(
    service: RayService,
    template: Body,
    cluster: RayCluster,
    cluster_spec: ClusterSpec,
    heads: Iterable[Pod],
) -> Body | None:
    """Return the service of the applications; None if the head has no port for them."""
    given: Body = copy.deepcopy(template)
    user_ports: list[Body] = given.get("spec", {}).get("ports", [])
    ports = _ports(serve_ports(head_ports(cluster_spec, heads)), user_ports)
    if not ports:
        return None
    name = given.get("metadata", {}).get("name") or serve_service_name(service.metadata)
    own = {labels.SERVE: f"{service.metadata.name}-serve"}
    own_labels = given.get("metadata", {}).get("labels", {}) | own
    metadata = stable_service_metadata(RAYSERVICES, service.metadata, name, own_labels)
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


def _ports(ports: dict[str, int], given: list[Body]) -> list[Body]:
    """Return the head's ports for Serve; a port of the user replaces the one of the same name."""
    by_name = {port.get("name"): port for port in given}
    own = [{"name": name, "port": port} for name, port in sorted(ports.items())]
    return [by_name.get(port["name"], port) for port in own] or given
