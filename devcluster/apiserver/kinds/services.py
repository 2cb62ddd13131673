"""Services: their addresses and node ports, defaults and validation."""

from __future__ import annotations

import ipaddress
import random
import re
from typing import Any

from devcluster.apiserver.objects import (
    Json,
    check_name,
    child,
    entries,
    is_label,
    is_name_label,
    validate_labels,
)
from devcluster.apiserver.resources import Strategy
from devcluster.apiserver.status import (
    StatusCause,
    check_choice,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from devcluster.apiserver.store import ObjectStore, StoredEvent

SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)


class Allocations:
    """Allocates service addresses and node ports; follows the store's writes."""

    def __init__(self, store: ObjectStore, rng: random.Random) -> None:
        self._rng = rng
        self._held: dict[str, tuple[frozenset[str], frozenset[int]]] = {}
        store.on_write.append(self._follow)

    def _follow(self, event: StoredEvent) -> None:
        if event.table != "services":
            return
        self._held.pop(event.key, None)
        if event.type != "DELETED":
            spec: Json = event.current.object["spec"]
            ports = frozenset(
                port["nodePort"] for port in entries(spec, "ports") if "nodePort" in port
            )
            self._held[event.key] = (frozenset(entries(spec, "clusterIPs")), ports)

    def address(self) -> str:
        """Return a free address of the service network."""
        used = {address for addresses, _ in self._held.values() for address in addresses}
        while True:
            address = str(SERVICE_NETWORK[self._rng.randrange(10, 65000)])
            if address not in used:
                return address

    def node_port(self, taken: set[int]) -> int:
        """Return a free node port that is not among `taken`."""
        used = {port for _, ports in self._held.values() for port in ports} | taken
        while True:
            port = self._rng.choice(NODE_PORTS)
            if port not in used:
                return port


_TYPES = ("ClusterIP", "LoadBalancer", "NodePort")
EXPOSED = frozenset({"NodePort", "LoadBalancer"})
_AFFINITIES = ("ClientIP", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PORT_NAME = re.compile(r"(?=.{1,15}$)(?=.*[a-z])[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_PORT_RANGE = "must be between 1 and 65535, inclusive"


def validate_service(service: Json) -> list[StatusCause]:
    """Validate spec and status."""
    spec: Json = service["spec"]
    if refused := _validate_address(spec["clusterIP"]):
        return refused
    causes = _validate_headless(spec) + _validate_ports(spec)
    causes += validate_labels(child(spec, "selector"), "spec.selector")
    causes += check_choice("spec.sessionAffinity", spec["sessionAffinity"], _AFFINITIES)
    causes += check_choice("spec.type", spec["type"], _TYPES)
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
    if not ports and spec["clusterIP"] != "None":
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
        causes += check_name(f"{field}.name", name, is_label)
    causes += check_choice(f"{field}.protocol", port["protocol"], _PROTOCOLS)
    if not 1 <= port.get("port", 0) <= 65535:
        causes.append(invalid_value(f"{field}.port", port.get("port", 0), _PORT_RANGE))
    if isinstance(target, int):
        if not 1 <= target <= 65535:
            causes.append(invalid_value(f"{field}.targetPort", target, _PORT_RANGE))
    elif not _PORT_NAME.fullmatch(target):
        detail = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        causes.append(invalid_value(f"{field}.targetPort", target, detail))
    return causes


def _drop_unchanged(spec: Json, before: Json, names: tuple[str, ...]) -> None:
    """Drop fields of the former type, unless the writer changed them."""
    for name in names:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)


def _keep_node_ports(spec: Json, before: Json) -> None:
    held = {(port.get("protocol"), port["port"]): port for port in entries(before, "ports")}
    for port in entries(spec, "ports"):
        known = held.get((port.get("protocol", "TCP"), port.get("port")), {})
        if "nodePort" in known:
            port.setdefault("nodePort", known["nodePort"])


def _close(spec: Json, before: Json) -> None:
    """Drop the fields of externally reachable services."""
    _drop_unchanged(spec, before, ("externalTrafficPolicy",))
    held = {port.get("nodePort") for port in entries(before, "ports")}
    for port in entries(spec, "ports"):
        if port.get("nodePort") in held:
            port.pop("nodePort", None)


class ServiceStrategy(Strategy):
    """Services, which get their address when they are created and keep it."""

    has_status = True
    returns_deleted = True
    creates_on_update = True
    server_defaulted = frozenset(
        {
            ("f:spec", "f:clusterIP"),
            ("f:spec", "f:clusterIPs"),
            ("f:spec", "f:ipFamilies"),
            ("f:spec", "f:ipFamilyPolicy"),
        }
    )
    name_rule = staticmethod(is_name_label)

    def __init__(self, allocations: Allocations) -> None:
        self._allocations = allocations

    def prepare_create(self, object_: Json) -> None:
        """Remove the load balancer's status from a new service."""
        object_["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Json, old: Json) -> None:
        """Keep allocated values unless the writer sets others."""
        super().prepare_update(new, old)
        spec, before = new.setdefault("spec", {}), old["spec"]
        if before["type"] in EXPOSED and spec.get("type", "ClusterIP") not in EXPOSED:
            _close(spec, before)
        if spec.get("type") != "LoadBalancer":
            _drop_unchanged(spec, before, ("allocateLoadBalancerNodePorts",))
        spec.setdefault("clusterIP", before["clusterIP"])
        if spec["clusterIP"] == before["clusterIP"]:
            spec.setdefault("clusterIPs", before["clusterIPs"])
        for name in ("ipFamilies", "ipFamilyPolicy"):
            spec.setdefault(name, before[name])
        if spec.get("type") in EXPOSED:
            _keep_node_ports(spec, before)

    def default(self, object_: Json) -> None:
        """Fill in defaults of the type, then addresses and node ports."""
        spec: Json = object_.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        ports = entries(spec, "ports")
        for port in ports:
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in {None, 0, ""}:
                port["targetPort"] = port.get("port", 0)
        spec.setdefault("internalTrafficPolicy", "Cluster")
        anywhere = spec.get("clusterIP") == "None" and not spec.get("selector")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if anywhere else ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if anywhere else "SingleStack")
        if not spec.get("clusterIP"):
            spec["clusterIP"] = self._allocations.address()
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        if spec["type"] in EXPOSED:
            self._expose(spec, ports)
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def _expose(self, spec: Json, ports: list[Json]) -> None:
        spec.setdefault("externalTrafficPolicy", "Cluster")
        taken = {port["nodePort"] for port in ports if port.get("nodePort")}
        for port in ports:
            if not port.get("nodePort"):
                port["nodePort"] = self._allocations.node_port(taken)
                taken.add(port["nodePort"])

    def validate(self, object_: Json, old: Json | None) -> list[StatusCause]:
        """Validate metadata, ports, and the address, which never changes."""
        causes = validate_service(object_)
        known_address = not any("valid IP address" in cause.message for cause in causes)
        address = object_["spec"]["clusterIP"]
        if old is not None and known_address and address != old["spec"]["clusterIP"]:
            detail = "may not change once set"
            causes.insert(0, invalid_value("spec.clusterIPs[0]", [address], detail))
        return super().validate(object_, old) + causes
