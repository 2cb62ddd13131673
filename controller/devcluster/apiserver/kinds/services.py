"""Services: addresses and node ports, defaults and port rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.jsondata import Json, child, entries
from controller.devcluster.apiserver.kinds.service_rules import EXPOSED, moved, validate_service
from controller.devcluster.apiserver.meta import is_name_label
from controller.devcluster.apiserver.protocol.status import StatusCause, invalid_value
from controller.devcluster.apiserver.resources.strategy import Strategy

if TYPE_CHECKING:
    from controller.devcluster.apiserver.kinds.allocation import Allocations


_INTERNAL = (
    "allocateLoadBalancerNodePorts",
    "clusterIP",
    "clusterIPs",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
)


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
    _drop_unchanged(spec, before, ("externalTrafficPolicy", "healthCheckNodePort"))
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
        if spec.get("type", "ClusterIP") == "ExternalName":
            if before["type"] != "ExternalName":
                _drop_unchanged(spec, before, _INTERNAL)
                _close(spec, before)
            return
        if before["type"] in EXPOSED and spec.get("type", "ClusterIP") not in EXPOSED:
            _close(spec, before)
        if spec.get("type") != "LoadBalancer":
            _drop_unchanged(spec, before, ("allocateLoadBalancerNodePorts",))
        if before.get("clusterIPs"):
            spec.setdefault("clusterIP", before["clusterIP"])
            if spec["clusterIP"] == before["clusterIP"]:
                spec.setdefault("clusterIPs", before["clusterIPs"])
        for name in ("ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
            if name in before:
                spec.setdefault(name, before[name])
        if spec.get("type") in EXPOSED:
            _keep_node_ports(spec, before)

    def default(self, object_: Json) -> None:
        """Fill in defaults of the type, then addresses and node ports."""
        spec: Json = object_.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["sessionAffinity"] == "ClientIP":
            spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
        ports = entries(spec, "ports")
        for port in ports:
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in {None, 0, ""}:
                port["targetPort"] = port.get("port", 0)
        if spec["type"] == "ExternalName":
            return
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
            self._balance(spec, child(child(object_, "status"), "loadBalancer"))

    def _balance(self, spec: Json, status: Json) -> None:
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        if spec["externalTrafficPolicy"] == "Local" and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = self._allocations.node_port(set())
        for address in entries(status, "ingress"):
            if "ip" in address:
                address.setdefault("ipMode", "VIP")

    def _expose(self, spec: Json, ports: list[Json]) -> None:
        spec.setdefault("externalTrafficPolicy", "Cluster")
        taken = {port["nodePort"] for port in ports if port.get("nodePort")}
        for port in ports:
            if not port.get("nodePort"):
                port["nodePort"] = self._allocations.node_port(taken)
                taken.add(port["nodePort"])

    def warnings(self, object_: Json, old: Json | None) -> list[str]:  # noqa: ARG002 - old does not matter
        """Warn that headless services do not balance connections."""
        spec: Json = object_["spec"]
        if spec.get("clusterIP") == "None" and spec["sessionAffinity"] != "None":
            return ["spec.SessionAffinity is ignored for headless services"]
        return []

    def validate(self, object_: Json, old: Json | None) -> list[StatusCause]:
        """Validate metadata, ports, and the address, which never changes."""
        causes = validate_service(object_)
        known_address = not any("valid IP address" in cause.message for cause in causes)
        if old is not None and known_address and moved(object_["spec"], old["spec"]):
            detail = "may not change once set"
            addresses = [object_["spec"]["clusterIP"]]
            causes.insert(0, invalid_value("spec.clusterIPs[0]", addresses, detail))
        return super().validate(object_, old) + causes
