"""Which pods are behind a service: read from the Service and its EndpointSlices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.devcluster.nodes.views import EndpointSlice
    from controller.kube.objects import Service, ServicePort

HEADLESS = "None"


@dataclass(frozen=True, slots=True, order=True)
class Backend:
    """Where a connection to a service may go."""

    ip: str
    port: int


def backends(port: ServicePort, slices: Iterable[EndpointSlice]) -> tuple[Backend, ...]:
    """The ready pods behind one port of a service, in order."""
    found = {
        Backend(address, entry["port"])
        for item in slices
        for entry in item.ports or ()
        if (entry.get("name") or "") == port.name and entry.get("port")
        for address in _ready(item)
    }
    return tuple(sorted(found))


def addresses(service: Service, slices: Iterable[EndpointSlice]) -> tuple[str, ...]:
    """What the service's name means: its address, or those of the ready pods if it has none."""
    if service.spec.cluster_ip != HEADLESS:
        return (service.spec.cluster_ip,) if service.spec.cluster_ip else ()
    return tuple(sorted({address for item in slices for address in _ready(item)}))


def _ready(item: EndpointSlice) -> list[str]:
    return [
        address
        for endpoint in item.endpoints or ()
        if endpoint.get("conditions", {}).get("ready", True)
        for address in endpoint["addresses"]
    ]
