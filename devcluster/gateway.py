"""The Gateway API: its definitions, the statuses of its objects, and their controller.

Statuses are pure functions. Types and reasons of conditions are those of the Gateway API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Any, Final, Protocol

import yaml
from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.metadata import is_owned_by, owner_reference
from controller.apimachinery.schema import add_conditions
from controller.kube.client import Client
from controller.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from controller.kube.objects import Condition, Gateway, HTTPRoute, KubeObject, Service, View
from controller.kube.resources import GATEWAYS, HTTP_ROUTES, SERVICES, Resource
from devcluster.nodes.components import (
    ComponentContext,
    Enqueue,
    LoopComponent,
    always,
)
from devcluster.nodes.objects import ENDPOINT_SLICES
from informers import Lister

GROUP: Final = "gateway.networking.k8s.io"


@cache
def gateway_api_definitions() -> list[dict[str, Any]]:
    """Return the definitions of GatewayClass, Gateway and HTTPRoute, ready to be created."""
    text = resources.files("devcluster").joinpath("gateway_api.yaml").read_text("utf-8")
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


# The controller.


class SimulatedListeners:
    """Gives every Gateway an address where nothing listens, for simulated pods."""

    async def apply(
        self, gateways: Mapping[str, tuple[Gateway, Sequence[HTTPRoute]]]
    ) -> dict[str, Listening]:
        """Implement `Listeners.apply`."""
        return {key: Listening(("10.9.9.9",)) for key in gateways}

    async def aclose(self) -> None:
        """Do nothing: nothing listens."""


Body = dict[str, Any]


class Publisher:
    """Keeps the Services of Gateways."""

    def __init__(self, client: Client, services: Lister[Any], slices: Lister[Any]) -> None:
        self._client = client
        self._services = services
        self._slices = slices

    async def publish(self, gateway: Gateway, listening: Listening) -> str:
        """Create or correct Service and slice; return why that cannot be, or an empty string."""
        if not listening.ports:
            return ""
        name, namespace = _service_name(gateway), gateway.metadata.namespace
        key = f"{namespace}/{name}"
        service, found = _service(gateway, listening), _slice(gateway, listening)
        present, its_slice = self._services.get(key), self._slices.get(key)
        try:
            if present is None:
                await self._client.create(SERVICES, namespace, service)
            elif not is_owned_by(present.metadata, gateway.metadata.uid):
                return f"Service {name} exists and is not this Gateway's: delete or rename it"
            elif tuple((each.port, each.target_port) for each in present.spec.ports) != (
                listening.ports
            ):
                await self._client.merge_patch(SERVICES, namespace, name, {"spec": service["spec"]})
            if its_slice is None:
                await self._client.create(ENDPOINT_SLICES, namespace, found)
            elif (its_slice.endpoints, its_slice.ports) != (found["endpoints"], found["ports"]):
                content = {"endpoints": found["endpoints"], "ports": found["ports"]}
                await self._client.merge_patch(ENDPOINT_SLICES, namespace, name, content)
        except (AlreadyExists, Conflict, NotFound):
            return ""  # the cache is behind: the next event enqueues it again
        except Invalid as refusal:
            return f"Service {name}: {refusal}"
        return ""


def _service_name(gateway: Gateway) -> str:
    return f"{gateway.metadata.name}-{gateway.spec.gateway_class_name}"


def _service(gateway: Gateway, listening: Listening) -> Body:
    """Return the Service, which selects no pods: the listeners are in a process of this machine."""
    ports = [
        {"name": _port_name(port), "protocol": "TCP", "port": port, "targetPort": bound}
        for port, bound in listening.ports
    ]
    labels = {"gateway.networking.k8s.io/gateway-name": gateway.metadata.name}
    return _body(SERVICES, gateway, labels) | {"spec": {"type": "ClusterIP", "ports": ports}}


def _slice(gateway: Gateway, listening: Listening) -> Body:
    ports = [
        {"name": _port_name(port), "protocol": "TCP", "port": bound}
        for port, bound in listening.ports
    ]
    labels = {"kubernetes.io/service-name": _service_name(gateway)}
    return _body(ENDPOINT_SLICES, gateway, labels) | {
        "addressType": "IPv4",
        "endpoints": [{"addresses": list(listening.addresses), "conditions": {"ready": True}}],
        "ports": ports,
    }


def _body(resource: Resource[Any], gateway: Gateway, labels: dict[str, str]) -> Body:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": _service_name(gateway),
            "namespace": gateway.metadata.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(GATEWAYS, gateway.metadata)],
        },
    }


def _port_name(port: int) -> str:
    return f"http-{port}"


CONTROLLER_NAME: Final = "manta.dev/gateway"
"""`spec.controllerName` of the classes that are handled."""

_EVERYTHING = "everything"


class Listeners(Protocol):
    """Listens for Gateways."""

    async def apply(
        self, gateways: Mapping[str, tuple[Gateway, Sequence[HTTPRoute]]]
    ) -> Mapping[str, Listening]:
        """Listen for exactly these Gateways with their routes; return the results by key."""
        ...

    async def aclose(self) -> None:
        """Stop listening."""
        ...


class GatewayController(LoopComponent[str]):
    """Reconciles all Gateways together, since there are few.

    Args:
        any_class: whether Gateways of a class that does not exist are handled too.
    """

    def __init__(
        self, context: ComponentContext, listeners: Listeners, *, any_class: bool = False
    ) -> None:
        super().__init__("gateways", context)
        self._client = context.client
        self._wall = context.wall
        self._listeners = listeners
        self._any_class = any_class
        self._classes = self._lister(context, GATEWAY_CLASSES)
        self._gateways = self._lister(context, GATEWAYS)
        self._routes = self._lister(context, HTTP_ROUTES)
        self._services = self._lister(context, SERVICES)
        slices = context.caches.informer(ENDPOINT_SLICES)
        slices.add_handler(Enqueue(self._loop.add, _of_gateways), name="gateways")
        self._publisher = Publisher(context.client, self._services, slices.lister)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await super().run()
        finally:
            await self._listeners.aclose()

    def _lister(self, context: ComponentContext, resource: Resource[Any]) -> Any:
        informer = context.caches.informer(resource)
        informer.add_handler(Enqueue(self._loop.add, always(_EVERYTHING)), name="gateways")
        return informer.lister

    async def _sync(self, key: str) -> None:
        del key
        now = rfc3339(self._wall())
        ours = [
            each for each in self._classes.list() if each.spec.controller_name == CONTROLLER_NAME
        ]
        names = {each.metadata.name for each in ours}
        if self._any_class:
            known = {each.metadata.name for each in self._classes.list()}
            names |= {each.spec.gateway_class_name for each in self._gateways.list()} - known
        gateways: dict[str, Gateway] = {
            each.metadata.key: each
            for each in self._gateways.list()
            if each.spec.gateway_class_name in names and not each.metadata.terminating
        }
        routes: list[HTTPRoute] = [
            each for each in self._routes.list() if not each.metadata.terminating
        ]
        attached = {name: (each, attached_routes(each, routes)) for name, each in gateways.items()}
        found = await self._listeners.apply(attached)
        for each in ours:
            await self._report(GATEWAY_CLASSES, each, class_status(each, now))
        for name, (gateway, its_routes) in attached.items():
            listening = found.get(name, Listening())
            if problem := await self._publisher.publish(gateway, listening):
                listening = replace(listening, problem=problem)
            status = gateway_status(gateway, its_routes, listening, now)
            await self._report(GATEWAYS, gateway, status)
        for route in routes:
            parents = route_parents(route, gateways, self._services.get, CONTROLLER_NAME, now)
            if parents:
                await self._report(HTTP_ROUTES, route, {"parents": parents})

    async def _report(self, resource: Resource[Any], obj: KubeObject, status: Status) -> None:
        """Write a status, if it is another one; entries of others among `parents` stay."""
        meta = obj.metadata
        with suppress(Conflict, NotFound):  # it has changed: its event enqueues it again
            raw = await self._client.get_raw(resource, meta.namespace, meta.name)
            before: Status = raw.get("status", {})
            wanted = before | status
            if "parents" in status:
                known: list[Status] = before.get("parents", [])
                others = [each for each in known if each.get("controllerName") != CONTROLLER_NAME]
                wanted["parents"] = [*others, *status["parents"]]
            if wanted != before and raw["metadata"]["uid"] == meta.uid:
                patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": wanted}
                await self._client.merge_patch(
                    resource, meta.namespace, meta.name, patch, subresource="status"
                )


def _of_gateways(obj: KubeObject) -> tuple[str, ...]:
    owner = obj.metadata.controller
    return (_EVERYTHING,) if owner is not None and owner.kind == GATEWAYS.kind else ()
