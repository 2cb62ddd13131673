"""Builds a RayService's Gateway, and the HTTPRoute that divides its requests, as in KubeRay.

The operator owns the class, its listener, the reference to the Gateway, and the backends of the
first rule. Other listeners, parents, rules and fields, and what the server has filled in, are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import contains, mappings
from controller.apimachinery.ownership import owner_reference
from controller.kube.resources import GATEWAYS, HTTP_ROUTES
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.children.child import Child, DesiredFields, OwnerConflict
from controller.ray.service.names import gateway_name, route_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controller.kube.objects import Gateway, HTTPRoute, ObjectMeta
    from controller.ray.children.child import OwnedKeys

Body = dict[str, Any]
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
