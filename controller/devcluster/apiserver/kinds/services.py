"""Services: addresses and node ports, defaults and port rules."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from controller.devcluster.apiserver.jsondata import Json, entries
from controller.devcluster.apiserver.meta import is_service_label
from controller.devcluster.apiserver.status import Cause, duplicate, invalid_value, required
from controller.devcluster.apiserver.strategy import Strategy

if TYPE_CHECKING:
    import random

    from controller.devcluster.apiserver.store import Store, StoredEvent

SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
_EXPOSED = frozenset({"NodePort", "LoadBalancer"})


class Allocations:
    """Service addresses and node ports in use, followed by watching the store's writes."""

    def __init__(self, store: Store, rng: random.Random) -> None:
        self._rng = rng
        self._held: dict[str, tuple[frozenset[str], frozenset[int]]] = {}
        store.on_write.append(self._follow)

    def _follow(self, event: StoredEvent) -> None:
        if event.table != "services":
            return
        self._held.pop(event.key, None)
        if event.type != "DELETED":
            spec: Json = event.current.object["spec"]
            ports = frozenset(port["nodePort"] for port in spec["ports"] if "nodePort" in port)
            self._held[event.key] = (frozenset(entries(spec, "clusterIPs")), ports)

    def address(self) -> str:
        """A free address of the service network."""
        used = {address for addresses, _ in self._held.values() for address in addresses}
        while True:
            address = str(SERVICE_NETWORK[self._rng.randrange(10, 65000)])
            if address not in used:
                return address

    def node_port(self, taken: set[int]) -> int:
        """A free node port that is not among `taken`."""
        used = {port for _, ports in self._held.values() for port in ports} | taken
        while True:
            port = self._rng.choice(NODE_PORTS)
            if port not in used:
                return port


class ServiceStrategy(Strategy):
    """Services get their address when they are created and keep it."""

    has_status = True
    echoes_deleted = True
    creates_on_update = True
    name_rule = staticmethod(is_service_label)

    def __init__(self, allocations: Allocations) -> None:
        self._allocations = allocations

    def prepare_create(self, object_: Json) -> None:
        """A new service has no load balancer yet."""
        object_["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Json, old: Json) -> None:
        """Keep what was allocated where the writer does not say otherwise."""
        super().prepare_update(new, old)
        spec, before = new.setdefault("spec", {}), old["spec"]
        if spec.get("type", "ClusterIP") == "ExternalName":
            return
        if before.get("clusterIPs"):
            spec.setdefault("clusterIP", before["clusterIP"])
            if spec["clusterIP"] == before["clusterIP"]:
                spec.setdefault("clusterIPs", before["clusterIPs"])
        for name in ("ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
            if name in before:
                spec.setdefault(name, before[name])
        if spec.get("type") in _EXPOSED:
            held = {(port.get("protocol"), port["port"]): port for port in before["ports"]}
            for port in entries(spec, "ports"):
                known = held.get((port.get("protocol", "TCP"), port.get("port")), {})
                if "nodePort" in known:
                    port.setdefault("nodePort", known["nodePort"])

    def default(self, object_: Json) -> None:
        """Defaults of the type, then addresses and node ports."""
        spec: Json = object_.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        ports: list[Json] = spec.setdefault("ports", [])
        for port in ports:
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in {None, 0, ""}:
                port["targetPort"] = port.get("port")
        if spec["type"] == "ExternalName":
            return
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if not spec.get("clusterIP"):
            spec["clusterIP"] = self._allocations.address()
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        if spec["type"] in _EXPOSED:
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

    def validate(self, object_: Json, old: Json | None) -> list[Cause]:
        """Metadata, ports, and the address, which never changes."""
        spec: Json = object_["spec"]
        causes = super().validate(object_, old)
        ports: list[Json] = spec["ports"]
        if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
            causes.append(required("spec.ports"))
        names: set[str] = set()
        numbers: set[tuple[Any, Any]] = set()
        for index, port in enumerate(ports):
            field = f"spec.ports[{index}]"
            causes += _validate_port(port, field, several=len(ports) > 1)
            name, number = port.get("name", ""), (port.get("protocol"), port.get("port"))
            if name and name in names:
                causes.append(duplicate(f"{field}.name", name))
            if number in numbers:
                same = {"port": number[1], "protocol": number[0]}
                causes.append(duplicate(field, same))
            names.add(name)
            numbers.add(number)
        if old is not None and _moved(spec, old["spec"]):
            detail = "may not change once set"
            causes.append(invalid_value("spec.clusterIPs[0]", spec["clusterIPs"], detail))
        return causes


def _moved(spec: Json, before: Json) -> bool:
    if "ExternalName" in {spec["type"], before["type"]} or not before.get("clusterIP"):
        return False
    return spec["clusterIP"] != before["clusterIP"]


def _validate_port(port: Json, field: str, *, several: bool) -> list[Cause]:
    causes: list[Cause] = []
    if several and not port.get("name"):
        causes.append(required(f"{field}.name"))
    for name in ("port", "targetPort"):
        number = port.get(name)
        if (number is None and name == "port") or (
            isinstance(number, int) and not 1 <= number <= 65535
        ):
            detail = "must be between 1 and 65535, inclusive"
            causes.append(invalid_value(f"{field}.{name}", number or 0, detail))
    return causes
