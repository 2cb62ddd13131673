"""The Service of a Gateway, by whose name pods reach it, and the addresses of its listeners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.apimachinery.ownership import is_owned_by, owner_reference
from controller.devcluster.gateway.definitions import GATEWAYS
from controller.devcluster.nodes.objects import ENDPOINT_SLICES
from controller.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from controller.kube.resources import SERVICES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.devcluster.gateway.definitions import Gateway, HTTPRoute
    from controller.kube.client import Client
    from controller.kube.resources import Resource
    from informers import Lister


# The addresses of a Gateway's listeners.


@dataclass(frozen=True, slots=True)
class Listening:
    """The addresses of a Gateway's listeners.

    Attributes:
        addresses: addresses for requests.
        ports: each port of a listener, and the one that is bound for it; empty if nothing is.
        problem: a sentence about why there are none; empty otherwise.
        remark: a text about the addresses for users.
    """

    addresses: tuple[str, ...] = ()
    ports: tuple[tuple[int, int], ...] = ()
    problem: str = ""
    remark: str = ""


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
    """Keeps the Services of Gateways.

    Args:
        client: access to the API server.
        services: the Services in the cache.
        slices: the EndpointSlices in the cache.
    """

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
    """Return the EndpointSlice with the addresses of the listeners."""
    ports = [
        {"name": _port_name(port), "protocol": "TCP", "port": bound}
        for port, bound in listening.ports
    ]
    labels = {"kubernetes.io/service-name": _service_name(gateway)}
    return _body(ENDPOINT_SLICES, gateway, labels) | {
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": list(listening.addresses), "conditions": {"ready": True}},
        ],
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
