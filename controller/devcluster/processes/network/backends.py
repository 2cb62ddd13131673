"""The backends of a service, from the Service and its EndpointSlices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.devcluster.nodes.objects import RawEndpointSlice
    from controller.kube.objects import Service, ServicePort

HEADLESS = "None"


@dataclass(frozen=True, slots=True, order=True)
class Backend:
    """An address and port of a ready pod."""

    ip: str
    port: int


def backends(port: ServicePort, slices: Iterable[RawEndpointSlice]) -> tuple[Backend, ...]:
    """Return the ready pods behind one port of a service, in order."""
    found = {
        Backend(address, entry["port"])
        for item in slices
        for entry in item.ports or ()
        if (entry.get("name") or "") == port.name and entry.get("port")
        for address in _ready(item)
    }
    return tuple(sorted(found))


def addresses(service: Service, slices: Iterable[RawEndpointSlice]) -> tuple[str, ...]:
    """Return the addresses of the service's name: its own, or those of ready pods if headless."""
    if service.spec.cluster_ip != HEADLESS:
        return (service.spec.cluster_ip,) if service.spec.cluster_ip else ()
    return tuple(sorted({address for item in slices for address in _ready(item)}))


def _ready(item: RawEndpointSlice) -> list[str]:
    return [
        address
        for endpoint in item.endpoints or ()
        if endpoint.get("conditions", {}).get("ready", True)
        for address in endpoint["addresses"]
    ]
