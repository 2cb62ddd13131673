"""The Services of a RayService, its Gateway and its HTTPRoute."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from controller.apimachinery.custom_object import contains, mappings
from controller.apimachinery.metadata import owner_reference
from controller.kube.objects import Gateway, HTTPRoute, ObjectMeta, Pod, Service
from controller.kube.resources import GATEWAYS, HTTP_ROUTES, SERVICES
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS, ClusterSpec, RayCluster
from controller.ray.api.rayservice import (
    RAYSERVICES,
    RayService,
    RayServiceSpec,
    cluster_serve_service_name,
    gateway_name,
    route_name,
    serve_service_name,
)
from controller.ray.children import (
    Child,
    DesiredFields,
    OwnedKeys,
    OwnerConflict,
    with_owned_fields,
)
from controller.ray.children.services import (
    desired_service_fields,
    stable_head_service,
    stable_service_metadata,
)
from controller.ray.head import head_ports, serve_ports
from controller.ray.settings import RaySettings

# The two stable services of a RayService: for the head, and for the applications.
#
# They keep name and uid over every upgrade; only the cluster that they select changes.

Body = dict[str, Any]


def stable_services(
    service: RayService,
    spec: RayServiceSpec | None,
    cluster: RayCluster,
    cluster_spec: ClusterSpec,
    heads: Sequence[Pod],
    *,
    settings: RaySettings,
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


# Builds a RayService's Gateway, and the HTTPRoute that divides its requests, as in KubeRay.
#
# The operator owns the class, its listener, the reference to the Gateway, and the backends of the
# first rule. Other listeners, parents, rules and fields, and what the server has filled in, are
# kept.

Item = dict[str, Any]

LISTENER: Final = "http"
PORT: Final = 80


def gateway(service: ObjectMeta, class_name: str) -> Child:
    """Return the Gateway of this class."""
    listener = {"name": LISTENER, "protocol": "HTTP", "port": PORT}
    body = {
        "apiVersion": GATEWAYS.api_version,
        "kind": GATEWAYS.kind,
        "metadata": _metadata(service, gateway_name(service)),
        "spec": {"gatewayClassName": class_name, "listeners": [listener]},
    }
    return Child(GATEWAYS, body, OwnerConflict.IGNORE, desired_fields=_desired_gateway)


def route(service: ObjectMeta, backends: Sequence[Item]) -> Child:
    """Return the HTTPRoute to these backends."""
    everything = {"path": {"type": "PathPrefix", "value": "/"}}
    body = {
        "apiVersion": HTTP_ROUTES.api_version,
        "kind": HTTP_ROUTES.kind,
        "metadata": _metadata(service, route_name(service)),
        "spec": {
            "parentRefs": [{"name": gateway_name(service), "namespace": service.namespace}],
            "rules": [{"matches": [everything], "backendRefs": list(backends)}],
        },
    }
    return Child(HTTP_ROUTES, body, OwnerConflict.IGNORE, desired_fields=_desired_route)


def backend(service: ObjectMeta, name: str, port: int, weight: int) -> Item:
    """Return one backend of the route: a Service in the RayService's namespace."""
    return {"name": name, "namespace": service.namespace, "port": port, "weight": weight}


def _metadata(service: ObjectMeta, name: str) -> Body:
    return {
        "name": name,
        "namespace": service.namespace,
        "ownerReferences": [owner_reference(RAYSERVICES, service)],
    }


def _desired_gateway(
    body: Mapping[str, Any], present: Gateway, formerly: OwnedKeys
) -> DesiredFields:
    del formerly
    spec = dict(body["spec"])
    spec["listeners"] = _with_ours(present.spec.listeners, spec["listeners"], _name)
    return DesiredFields({"spec": spec})


def _desired_route(
    body: Mapping[str, Any], present: HTTPRoute, formerly: OwnedKeys
) -> DesiredFields:
    del formerly
    wanted = body["spec"]
    namespace = body["metadata"]["namespace"]

    def parent(reference: Item) -> tuple[str, str]:
        return _text(reference, "namespace") or namespace, _name(reference)

    parents = _with_ours(present.spec.parent_refs, wanted["parentRefs"], parent)
    [ours] = wanted["rules"]
    first: Item = dict(present.spec.rules[0]) if present.spec.rules else {}
    known = {_name(each): each for each in mappings(first.get("backendRefs"))}
    first["backendRefs"] = [known.get(_name(each), {}) | each for each in ours["backendRefs"]]
    if not contains(first.get("matches"), ours["matches"]):
        first["matches"] = ours["matches"]
    rules = [first, *present.spec.rules[1:]]
    return DesiredFields({"spec": {"parentRefs": parents, "rules": rules}})


def _with_ours(
    present: Sequence[Item], ours: Sequence[Item], key: Callable[[Item], Any]
) -> list[Item]:
    """Return the present items, overlaid with ours by key; new ones of ours at the end."""
    missing = {key(each): each for each in ours}
    kept = [each | missing.pop(key(each), {}) for each in present]
    return [*kept, *missing.values()]


def _name(item: Item) -> str:
    return _text(item, "name")


def _text(item: Item, field: str) -> str:
    """Return a field of an item that other clients may have written; empty if it is not text."""
    found = item.get(field)
    return found if isinstance(found, str) else ""
