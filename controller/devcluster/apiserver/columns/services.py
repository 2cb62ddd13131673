"""Columns of services, endpoints and endpoint slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.columns.cells import (
    NONE,
    UNSET,
    column,
    field,
    joined,
    selector,
)
from controller.devcluster.apiserver.columns.column import AGE, NAME
from controller.devcluster.apiserver.jsondata import child, entries

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json

SHOWN_ENDPOINTS = 3


def _external(service: Json) -> str:
    spec = child(service, "spec")
    addresses = entries(spec, "externalIPs")
    if spec.get("type") == "ExternalName":
        return spec.get("externalName", "")
    if spec.get("type") != "LoadBalancer":
        return joined(addresses)
    ingress = entries(child(child(service, "status"), "loadBalancer"), "ingress")
    found = [entry.get("ip") or entry.get("hostname", "") for entry in ingress]
    return joined([*found, *addresses], "<pending>")


def _ports(service: Json) -> str:
    shown: list[str] = []
    for port in entries(child(service, "spec"), "ports"):
        number = f"{port.get('port')}:{port['nodePort']}" if "nodePort" in port else port["port"]
        shown.append(f"{number}/{port.get('protocol', 'TCP')}")
    return joined(shown)


def _cluster_address(service: Json) -> str:
    return child(service, "spec").get("clusterIP") or NONE


def _shortened(items: list[str]) -> str:
    more = len(items) - SHOWN_ENDPOINTS
    text = joined(items[:SHOWN_ENDPOINTS])
    return f"{text} + {more} more..." if more > 0 else text


def _endpoints(endpoints: Json) -> str:
    return _shortened(
        [
            f"{address.get('ip')}:{port.get('port')}"
            for subset in entries(endpoints, "subsets")
            for port in entries(subset, "ports")
            for address in entries(subset, "addresses")
        ]
    )


def _slice_ports(slice_: Json) -> str:
    ports = entries(slice_, "ports")
    if not ports:
        return UNSET
    return _shortened([str(port.get("port", "*")) for port in ports])


def _slice_endpoints(slice_: Json) -> str:
    found = [entries(endpoint, "addresses")[:1] for endpoint in entries(slice_, "endpoints")]
    return _shortened([address for addresses in found for address in addresses]) or UNSET


SERVICES = (
    NAME,
    field("Type", "spec.type"),
    column("Cluster-IP", _cluster_address),
    column("External-IP", _external),
    column("Port(s)", _ports),
    AGE,
    column(
        "Selector",
        lambda service: selector(child(child(service, "spec"), "selector")),
        wide=True,
    ),
)
ENDPOINTS = (NAME, column("Endpoints", _endpoints), AGE)
ENDPOINT_SLICES = (
    NAME,
    field("AddressType", "addressType"),
    column("Ports", _slice_ports),
    column("Endpoints", _slice_endpoints),
    AGE,
)
