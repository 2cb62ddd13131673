"""The Gateway API: its definitions, GatewayClasses, and the statuses that a controller writes.

Statuses are pure functions. Types and reasons of conditions are those of the Gateway API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import yaml
from msgspec import Struct

from controller.apimachinery.schema import add_conditions
from controller.kube.objects import Condition, Gateway, HTTPRoute, KubeObject, Service, View
from controller.kube.resources import Resource

GROUP: Final = "gateway.networking.k8s.io"


@cache
def gateway_api_definitions() -> list[dict[str, Any]]:
    """Return the definitions of GatewayClass, Gateway and HTTPRoute, ready to be created."""
    text = resources.files("controller.devcluster").joinpath("gateway_api.yaml").read_text("utf-8")
    definitions: list[dict[str, Any]] = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    add_conditions(definitions)
    return definitions


class GatewayClassSpec(View, frozen=True):
    """`spec` of a GatewayClass."""

    controller_name: str = ""


class GatewayClassStatus(View, frozen=True):
    """`status` of a GatewayClass."""

    conditions: tuple[Condition, ...] = ()


class GatewayClass(KubeObject, frozen=True):
    """A GatewayClass, which names the controller of its Gateways."""

    spec: GatewayClassSpec = GatewayClassSpec()
    status: GatewayClassStatus = GatewayClassStatus()


GATEWAY_CLASSES: Resource[Any] = Resource(
    GROUP, "v1", "gatewayclasses", "GatewayClass", GatewayClass, namespaced=False
)


Status = dict[str, Any]

PROTOCOL: Final = "HTTP"


class Listening(Struct, frozen=True):
    """The addresses of a Gateway's listeners.

    Attributes:
        ports: each port of a listener, and the one that is bound for it; empty if nothing is.
    """

    addresses: tuple[str, ...] = ()
    ports: tuple[tuple[int, int], ...] = ()
    problem: str = ""
    remark: str = ""


def class_status(found: GatewayClass, now: str) -> Status:
    """Return the status of an accepted class."""
    accepted = _condition("Accepted", "Accepted", "")
    conditions = _conditions([accepted], found.metadata.generation, found.status.conditions, now)
    return {"conditions": conditions}


def gateway_status(
    found: Gateway, routes: Iterable[HTTPRoute], listening: Listening, now: str
) -> Status:
    """Return the status of a Gateway of our class."""
    generation = found.metadata.generation
    programmed = _condition("Programmed", "Programmed", listening.remark)
    if listening.problem:
        programmed = _condition("Programmed", "Invalid", listening.problem, ok=False)
    elif not listening.addresses:
        message = "it has no address yet"
        programmed = _condition("Programmed", "AddressNotAssigned", message, ok=False)
    attached = sum(1 for _ in routes)
    return {
        "addresses": [{"type": "IPAddress", "value": each} for each in listening.addresses],
        "conditions": _conditions(
            [_condition("Accepted", "Accepted", ""), programmed],
            generation,
            found.status.conditions,
            now,
        ),
        "listeners": [
            _listener_status(each, generation, attached, found.status.conditions, now)
            for each in found.spec.listeners
        ],
    }


def route_parents(
    found: HTTPRoute,
    gateways: Mapping[str, Gateway],
    service_of: Callable[[str], Service | None],
    controller: str,
    now: str,
) -> list[Status]:
    """Return `status.parents` of a route: an entry for each parent that is a Gateway of ours."""
    namespace = found.metadata.namespace
    generation = found.metadata.generation
    unresolved = _unresolved(found, service_of)
    parents: list[Status] = []
    for reference in found.spec.parent_refs:
        gateway = gateways.get(key_of(reference, namespace))
        if gateway is None:
            continue
        accepted = _condition("Accepted", "Accepted", "")
        names = {each["name"] for each in gateway.spec.listeners}
        if reference.get("sectionName") and reference["sectionName"] not in names:
            message = f"the Gateway has no listener {reference['sectionName']}"
            accepted = _condition("Accepted", "NoMatchingParent", message, ok=False)
        resolved = _condition("ResolvedRefs", "ResolvedRefs", "")
        if unresolved:
            resolved = _condition("ResolvedRefs", "BackendNotFound", unresolved, ok=False)
        before = next(
            (each.conditions for each in found.status.parents if each.parent_ref == reference), ()
        )
        parents.append(
            {
                "parentRef": reference,
                "controllerName": controller,
                "conditions": _conditions([accepted, resolved], generation, before, now),
            }
        )
    return parents


def attached_routes(gateway: Gateway, routes: Iterable[HTTPRoute]) -> list[HTTPRoute]:
    """Return the routes that refer to a Gateway, oldest first, as the Gateway API orders them."""
    found = [
        each
        for each in routes
        if gateway.metadata.key
        in {key_of(ref, each.metadata.namespace) for ref in each.spec.parent_refs}
    ]
    return sorted(
        found, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.key)
    )


def _unresolved(found: HTTPRoute, service_of: Callable[[str], Service | None]) -> str:
    for rule in found.spec.rules:
        for each in rule.get("backendRefs") or ():
            key = key_of(each, found.metadata.namespace)
            service = service_of(key)
            if service is None:
                return f"Service {key} does not exist"
            if each.get("port") not in {port.port for port in service.spec.ports}:
                return f"Service {key} has no port {each.get('port')}"
    return ""


def _listener_status(
    listener: Mapping[str, Any],
    generation: int,
    attached: int,
    before: Iterable[Condition],
    now: str,
) -> Status:
    fits = listener.get("protocol") == PROTOCOL
    reason = "Accepted" if fits else "UnsupportedProtocol"
    message = "" if fits else f"only {PROTOCOL} is supported"
    wanted = [_condition("Accepted", reason, message, ok=fits)]
    return {
        "name": listener["name"],
        "attachedRoutes": attached,
        "supportedKinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}],
        "conditions": _conditions(wanted, generation, before, now),
    }


def key_of(reference: Mapping[str, Any], namespace: str) -> str:
    """Return the key of what a reference of an object of that namespace names."""
    return f"{reference.get('namespace') or namespace}/{reference['name']}"


def _condition(type_: str, reason: str, message: str, *, ok: bool = True) -> Status:
    return {"type": type_, "status": str(ok), "reason": reason, "message": message}


def _conditions(
    wanted: Iterable[Status], generation: int, before: Iterable[Condition], now: str
) -> list[Status]:
    """Return the conditions; those with an unchanged status keep their times."""
    since = {(each.type, each.status): each.last_transition_time for each in before}
    return [
        each
        | {
            "observedGeneration": generation,
            "lastTransitionTime": since.get((each["type"], each["status"])) or now,
        }
        for each in wanted
    ]
