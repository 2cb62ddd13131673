"""The division of a RayService's requests between its clusters.

The weights follow from the stored status alone: a weight is stored, then the HTTPRoute is changed,
and no further step is taken until the gateway reports that it routes by that weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from controller.apimachinery.custom_object import mappings
from controller.apimachinery.metadata import is_owned_by, ownership_text
from controller.apimachinery.validation import Problem
from controller.kube.objects import Condition, Gateway, HTTPRoute, KubeObject, ObjectMeta
from controller.kube.resources import GATEWAYS, HTTP_ROUTES, Resource
from controller.ray.api.rayservice import (
    UpgradeType,
    cluster_behind,
    cluster_serve_service_name,
    gateway_name,
    route_name,
    upgrade_type,
)
from controller.ray.children import Child, ChildState, ObservedChild, observe_child
from controller.ray.head import head_ports, serve_ports
from controller.ray.service.observation import Routing, ServiceObservation, ServingCluster
from controller.ray.service.rollout import FULL
from controller.ray.service.services import backend, cluster_serve_service, gateway, route
from controller.runtime.kind import CacheReader

T = TypeVar("T", bound=KubeObject)

DEFAULT_PORT: Final = 8000
"""Port of a route's backend if the head names none (KubeRay)."""

NOT_INSTALLED: Final = (
    "the Gateway API is not installed, or the operator may not list its objects: install its "
    "definitions and a controller for the GatewayClass, and grant gateways and httproutes of "
    "gateway.networking.k8s.io; until then the active cluster goes on serving"
)


def observe_routing(seen: ServiceObservation, reads: CacheReader) -> Routing:
    """Return the Gateway, the route, and the services of both clusters, desired and observed.

    They are desired with the strategy of incremental upgrades and while one is in progress. An
    existing route is kept up to date with any strategy and specification, because clients may use
    it.
    """
    if not (reads.serves(GATEWAYS) and reads.serves(HTTP_ROUTES)):
        return Routing(wanted=_is_wanted(seen), served=False)
    meta = seen.service.metadata
    routing = Routing(
        wanted=_is_wanted(seen),
        gateway=_own(reads, GATEWAYS, meta, gateway_name(meta)),
        route=_own(reads, HTTP_ROUTES, meta, route_name(meta)),
    )
    if not routing.wanted and routing.route is None:
        return routing
    services = tuple(_services(seen, reads))
    objects = _objects(replace(seen, routing=routing), reads, [found for _, found in services])
    return replace(routing, children=(*services, *objects))


def _is_wanted(seen: ServiceObservation) -> bool:
    if seen.is_incremental or isinstance(seen.goal, Problem):
        return seen.is_incremental
    strategy = upgrade_type(seen.goal.spec, seen.settings.default_upgrade)
    return strategy is UpgradeType.INCREMENTAL


def wanted_weights(seen: ServiceObservation) -> dict[str, int]:
    """Return the stored share of the requests of each cluster in percent, by name."""
    if seen.active is None:
        return {}
    if not seen.is_incremental or seen.pending is None or seen.pending.cluster is None:
        return {seen.active.name: FULL}
    shares = seen.shares
    return {seen.active.name: shares.active_weight, seen.pending.name: shares.pending_weight}


def routed_clusters(seen: ServiceObservation) -> frozenset[str]:
    """Return the names of the clusters to which the observed route leads."""
    return frozenset(_weights(seen.routing.route))


def routing_problem(seen: ServiceObservation) -> str:
    """Return a clause about why the stored weights are not in force; empty if they are."""
    routing, meta = seen.routing, seen.service.metadata
    if not routing.served:
        return NOT_INSTALLED
    for child, observed in routing.children:
        is_needed = child.resource in {GATEWAYS, HTTP_ROUTES}
        conflicts = observed.state is ChildState.OWNER_CONFLICT
        if conflicts or (is_needed and observed.state is not ChildState.PRESENT):
            return f"{child} {state_text(observed)}"
    if routing.gateway is None or routing.route is None:
        missing = gateway_name(meta) if routing.gateway is None else route_name(meta)
        return f"{missing} does not exist yet"
    return _gateway_problem(routing.gateway) or _route_problem(seen, routing.route)


def gateway_class(seen: ServiceObservation) -> str:
    """Return the user's class; the present one if none is set, or the specification is invalid."""
    present, options = seen.routing.gateway, seen.upgrade_options
    if options is not None and options.gateway_class_name:
        return options.gateway_class_name
    return "" if present is None else present.spec.gateway_class_name


def _own(reads: CacheReader, resource: Resource[T], meta: ObjectMeta, name: str) -> T | None:
    """Return the object of this name if it belongs to the RayService."""
    found = reads.get(resource, f"{meta.namespace}/{name}")
    return found if found is not None and is_owned_by(found.metadata, meta.uid) else None


def _services(
    seen: ServiceObservation, reads: CacheReader
) -> Iterator[tuple[Child, ObservedChild]]:
    for each in seen.clusters:
        if each.cluster is None or each.spec is None:
            continue
        child = cluster_serve_service(seen.service, each.cluster, each.spec, each.heads)
        if child is not None:
            meta = each.cluster.metadata
            yield child, observe_child(child, meta.namespace, meta.uid, reads)


def _objects(
    seen: ServiceObservation, reads: CacheReader, services: Sequence[ObservedChild]
) -> Iterator[tuple[Child, ObservedChild]]:
    """Yield the Gateway and the route, if there is anything to route to."""
    meta = seen.service.metadata

    def observed(child: Child) -> tuple[Child, ObservedChild]:
        return child, observe_child(child, meta.namespace, meta.uid, reads)

    if class_name := gateway_class(seen):
        yield observed(gateway(meta, class_name))
    found = {each.present.metadata.name for each in services if each.present is not None}
    backends = list(_backends(seen, found))
    if backends:
        yield observed(route(meta, backends))


def _backends(seen: ServiceObservation, services: set[str]) -> Iterator[dict[str, Any]]:
    """Yield a backend for each cluster whose service exists; routes may not name others.

    A present backend stays while its cluster exists, whose service may not be observed yet, or
    while it has a weight. A gateway rejects a route to a missing service.
    """
    weights = wanted_weights(seen)
    known = {cluster_serve_service_name(name) for name in routed_clusters(seen)}
    for each in seen.clusters:
        name = cluster_serve_service_name(each.name)
        stays = name in known and (each.cluster is not None or weights.get(each.name, 0) > 0)
        if each.name in weights and (stays or name in services):
            yield backend(seen.service.metadata, name, _port(each), weights[each.name])


def _port(cluster: ServingCluster) -> int:
    ports = serve_ports(head_ports(cluster.spec, cluster.heads)) if cluster.spec else {}
    return ports.get("serve", DEFAULT_PORT)


def _weights(found: HTTPRoute | None) -> dict[str, int]:
    """Return the weights that a route has, by cluster; 1 is the default of the Gateway API."""
    rules = found.spec.rules if found is not None else ()
    backends = [each for rule in rules for each in mappings(rule.get("backendRefs"))]
    named = ((each.get("name"), each.get("weight")) for each in backends)
    return {
        cluster_behind(name): weight if isinstance(weight, int) else 1
        for name, weight in named
        if isinstance(name, str)
    }


def state_text(observed: ObservedChild) -> str:
    """Return the predicate of a message about a child that is not as desired."""
    match observed.state:
        case ChildState.MISSING:
            return "is being created"
        case ChildState.TERMINATING:
            return "is being deleted"
        case _:
            found = observed.present
            owner = ownership_text(found.metadata if found is not None else None)
            return f"exists and {owner}; delete it, or rename the RayService"


def _gateway_problem(found: Gateway) -> str:
    meta = found.metadata
    return _unmet(
        f"Gateway {meta.name}",
        meta,
        found.status.conditions,
        ("Accepted", "Programmed"),
        f"is there a controller for GatewayClass {found.spec.gateway_class_name}?",
    )


def _route_problem(seen: ServiceObservation, found: HTTPRoute) -> str:
    meta = found.metadata
    present, wanted = set(_weights(found).items()), set(wanted_weights(seen).items())
    if any(weight for _, weight in present ^ wanted):
        return f"HTTPRoute {meta.name} has other weights than the stored ones"
    parent = gateway_name(seen.service.metadata)
    problems = [
        _unmet(f"HTTPRoute {meta.name}", meta, each.conditions, ("Accepted", "ResolvedRefs"), "")
        for each in found.status.parents
        if _refers(each.parent_ref, parent, meta.namespace)
    ]
    if not problems:
        return f"no controller has accepted HTTPRoute {meta.name} for Gateway {parent} yet"
    return "" if "" in problems else problems[0]


def _refers(reference: Mapping[str, Any], name: str, namespace: str) -> bool:
    named = (reference.get("name"), reference.get("namespace") or namespace)
    return named == (name, namespace)


def _unmet(
    what: str,
    meta: ObjectMeta,
    conditions: Sequence[Condition],
    types: Sequence[str],
    hint: str,
) -> str:
    """Return the first condition that is not true for the present generation."""
    by_type = {each.type: each for each in conditions}
    for name in types:
        found = by_type.get(name)
        if found is None or found.status == "Unknown":
            return f"{what} is not known to be {name}{f'; {hint}' if hint else ''}"
        if found.status != "True":
            return f"{what} is not {name}: {found.reason}: {found.message}".rstrip(": ")
        if found.observed_generation != meta.generation:
            return f"{what} has changed, and its controller has not seen the change yet"
    return ""
