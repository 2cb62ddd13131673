"""Validation of services."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from controller.devcluster.apiserver.jsondata import child, entries
from controller.devcluster.apiserver.kinds.allocation import SERVICE_NETWORK
from controller.devcluster.apiserver.meta import is_label, is_subdomain, validate_labels
from controller.devcluster.apiserver.protocol.status import (
    StatusCause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported_value,
)

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
EXPOSED = frozenset({"NodePort", "LoadBalancer"})
_AFFINITIES = ("ClientIP", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PORT_NAME = re.compile(r"(?=.{1,15}$)(?=.*[a-z])[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_PORT_RANGE = "must be between 1 and 65535, inclusive"


def moved(spec: Json, before: Json) -> bool:
    """Return whether the cluster address of a service would change."""
    if "ExternalName" in {spec["type"], before["type"]} or not before.get("clusterIP"):
        return False
    return spec["clusterIP"] != before["clusterIP"]


def validate_service(service: Json) -> list[StatusCause]:
    """Validate spec and status."""
    spec: Json = service["spec"]
    refused = [] if spec["type"] == "ExternalName" else _validate_address(spec["clusterIP"])
    if refused:
        return refused
    causes = _validate_external(spec) if spec["type"] == "ExternalName" else []
    causes += _validate_headless(spec) + _validate_ports(spec)
    causes += validate_labels(child(spec, "selector"), "spec.selector")
    if spec["sessionAffinity"] not in _AFFINITIES:
        affinity = spec["sessionAffinity"]
        causes.append(unsupported_value("spec.sessionAffinity", affinity, _AFFINITIES))
    if spec["type"] not in _TYPES:
        causes.append(unsupported_value("spec.type", spec["type"], _TYPES))
    causes += [] if spec["type"] in EXPOSED else _validate_closed(spec)
    ingress = entries(child(child(service, "status"), "loadBalancer"), "ingress")
    if ingress and spec["type"] != "LoadBalancer":
        why = "may only be used when `spec.type` is 'LoadBalancer'"
        causes.append(forbidden_field("status.loadBalancer.ingress", why))
    return causes


def _validate_headless(spec: Json) -> list[StatusCause]:
    if spec["type"] not in EXPOSED or spec["clusterIP"] != "None":
        return []
    why = f"may not be set to 'None' for {spec['type']} services"
    return [invalid_value("spec.clusterIPs[0]", "None", why)]


def _validate_closed(spec: Json) -> list[StatusCause]:
    """Refuse external fields on internal services."""
    why = "may not be used when `type` is 'ClusterIP'"
    causes = [
        forbidden_field(f"spec.ports[{index}].nodePort", why)
        for index, port in enumerate(entries(spec, "ports"))
        if port.get("nodePort") and spec["type"] == "ClusterIP"
    ]
    if policy := spec.get("externalTrafficPolicy"):
        why = "may only be set for externally-accessible services"
        causes.append(invalid_value("spec.externalTrafficPolicy", policy, why))
    return causes


def _validate_external(spec: Json) -> list[StatusCause]:
    causes: list[StatusCause] = []
    if spec.get("clusterIP"):
        why = "may not be set for ExternalName services"
        causes.append(forbidden_field("spec.clusterIPs", why))
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        return [*causes, required("spec.externalName")]
    return causes + [invalid_value("spec.externalName", name, why) for why in is_subdomain(name)]


def _validate_address(address: str) -> list[StatusCause]:
    if address == "None":
        return []
    try:
        inside = ipaddress.ip_address(address) in SERVICE_NETWORK
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        return [invalid_value("spec.clusterIPs[0]", address, detail)]
    if inside:
        return []
    detail = (
        f"failed to allocate IP {address}: the provided network does not match the current range"
    )
    return [invalid_value("spec.clusterIPs", [address], detail)]


def _validate_ports(spec: Json) -> list[StatusCause]:
    ports = entries(spec, "ports")
    causes: list[StatusCause] = []
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        causes.append(required("spec.ports"))
    names: set[str] = set()
    numbers: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        field = f"spec.ports[{index}]"
        name, number = port.get("name", ""), (port.get("protocol"), port.get("port"))
        causes += _validate_port(port, field, several=len(ports) > 1)
        if name and name in names:
            causes.append(duplicate(f"{field}.name", name))
        if number in numbers:
            causes.append(duplicate(field, _quoted(number)))
        names.add(name)
        numbers.add(number)
    return causes


def _quoted(number: tuple[Any, Any]) -> Json:
    """Return a port as upstream's structures quote it."""
    protocol, port = number
    blank = {"TargetPort": 0, "NodePort": 0}
    return {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": port} | blank


def _validate_port(port: Json, field: str, *, several: bool) -> list[StatusCause]:
    causes: list[StatusCause] = []
    name, target = port.get("name", ""), port.get("targetPort", 0)
    if several and not name:
        causes.append(required(f"{field}.name"))
    if name:
        causes += [invalid_value(f"{field}.name", name, problem) for problem in is_label(name)]
    if port["protocol"] not in _PROTOCOLS:
        causes.append(unsupported_value(f"{field}.protocol", port["protocol"], _PROTOCOLS))
    if not 1 <= port.get("port", 0) <= 65535:
        causes.append(invalid_value(f"{field}.port", port.get("port", 0), _PORT_RANGE))
    if isinstance(target, int):
        if not 1 <= target <= 65535:
            causes.append(invalid_value(f"{field}.targetPort", target, _PORT_RANGE))
    elif not _PORT_NAME.fullmatch(target):
        detail = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        causes.append(invalid_value(f"{field}.targetPort", target, detail))
    return causes
