"""The service network: forwards service addresses to ready pods, and publishes names.

It follows Services and EndpointSlices, like the proxy and the DNS of a real node. A port without
a ready pod is not listened on, so that connections to it are refused at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from controller.devcluster.nodes.components import Enqueue
from controller.devcluster.nodes.objects import ENDPOINT_SLICES
from controller.devcluster.nodes.pods import PODS
from controller.devcluster.processes.network.forwarder import (
    HEADLESS,
    Backend,
    Forwarder,
    addresses,
    backends,
    owner,
    permitted_users,
)
from controller.kube.resources import SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.devcluster.nodes.components import ComponentContext
    from controller.devcluster.nodes.objects import RawEndpointSlice
    from controller.devcluster.nodes.pods import KubeletPod
    from controller.devcluster.processes.pod_sandbox import Isolation
    from controller.kube.objects import KubeObject, Service


# The hosts file of a pod, in place of the cluster's DNS.


DOMAIN = "cluster.local"


def hosts_file(
    names: Mapping[tuple[str, str], tuple[str, ...]],
    *,
    namespace: str,
    hostname: str,
    ip: str,
) -> str:
    """Return the text of the hosts file of one pod.

    Args:
        names: addresses by namespace and service.
        namespace: namespace of the pod: its services have short names for it.
        hostname: hostname of the pod.
        ip: IP address of the pod.
    """
    lines = ["127.0.0.1 localhost", f"{ip} {hostname}"]
    for (space, service), found in sorted(names.items()):
        full = f"{service}.{space}.svc.{DOMAIN}"
        others = [f"{service}.{space}.svc", f"{service}.{space}"]
        if space == namespace and service != hostname:  # a pod's own name resolves to the pod
            others.append(service)
        lines += [" ".join([address, full, *others]) for address in found]
    return "".join(f"{line}\n" for line in lines)


_log = structlog.get_logger(__name__)

_SERVICE_LABEL = "kubernetes.io/service-name"
_BY_SERVICE = "service-of-slice"
_ALL = ("network",)
_AGAIN = 5.0  # seconds until an address that could not be bound is tried again


class ServiceNetwork:
    """Reconciles forwarders and names with Services and EndpointSlices.

    Args:
        context: client, caches and time.
        isolation: holds addresses and publishes names.
        api_server: host and port of the API server's plain HTTP, which pods reach at the name
            of service `kubernetes` and at the isolation's `host_ip`, at the same port.
    """

    def __init__(
        self,
        context: ComponentContext,
        isolation: Isolation,
        api_server: tuple[str, int] | None = None,
    ) -> None:
        self._isolation = isolation
        self._permitted = permitted_users()
        self._api_server = api_server
        self._loop = context.control_loop("network", self._sync)
        services = context.caches.informer(SERVICES)
        services.add_handler(Enqueue(self._loop.add, _everything), name="network")
        self._services = services.lister
        slices = context.caches.informer(ENDPOINT_SLICES)
        slices.add_index(_BY_SERVICE, service_of_slice)
        slices.add_handler(Enqueue(self._loop.add, _everything), name="network")
        self._slices = slices.lister
        self._pods = context.caches.informer(PODS).lister
        self._forwarders: dict[tuple[str, int], Forwarder] = {}
        self._closed: list[tuple[str, Forwarder]] = []
        self._refused: set[tuple[str, int]] = set()
        self._held: Mapping[str, str] = {}

    async def start(self) -> None:
        """Do nothing."""

    async def run(self) -> None:
        """Work until cancelled."""
        self._loop.add("network")
        try:
            await self._loop.run()
        finally:
            closed = (each for _, each in self._closed)
            for forwarder in (*self._forwarders.values(), *closed):
                await forwarder.aclose()

    def backends(self, service: Service, port: str) -> tuple[Backend, ...]:
        """Return the ready pods behind the port of that name."""
        slices = self._slices_of(service)
        for one in service.spec.ports:
            if one.name == port:
                return backends(one, slices)
        return ()

    def endpoints(self, key: str, port: int) -> list[tuple[str, int]]:
        """Return addresses and ports of the ready pods behind a port of a service, by its key."""
        service = self._services.get(key)
        if service is None:
            return []
        slices = self._slices_of(service)
        ports = [one for one in service.spec.ports if one.port == port]
        return [(each.ip, each.port) for one in ports for each in backends(one, slices)]

    def service(self, namespace: str, name: str) -> Service | None:
        """Return the service in the cache."""
        return self._services.get(f"{namespace}/{name}")

    def pod(self, namespace: str, name: str) -> KubeletPod | None:
        """Return the pod in the cache."""
        return self._pods.get(f"{namespace}/{name}")

    def address(self, namespace: str, name: str) -> str:
        """Return the address of a service on this machine; empty if there is none."""
        service = self.service(namespace, name)
        return self._held.get(service.spec.cluster_ip, "") if service else ""

    def _slices_of(self, service: Service) -> list[RawEndpointSlice]:
        return list(self._slices.by_index(_BY_SERVICE, service.metadata.key))

    async def _sync(self, key: str) -> float | None:
        del key
        services = list(self._services.list())
        wanted_addresses = _cluster_addresses(services) | self._used_addresses()
        held = self._held = await self._isolation.hold(wanted_addresses)
        names: dict[tuple[str, str], tuple[str, ...]] = {}
        wanted: dict[tuple[str, int], tuple[Backend, ...]] = {}
        for service in services:
            slices = self._slices_of(service)
            meta = service.metadata
            names[meta.namespace, meta.name] = tuple(
                held.get(address, address) for address in addresses(service, slices)
            )
            if service.spec.cluster_ip in held:
                for port in service.spec.ports:
                    if port.protocol == "TCP" and (behind := backends(port, slices)):
                        wanted[held[service.spec.cluster_ip], port.port] = behind
        if self._api_server:
            here = self._isolation.host_ip
            names["default", "kubernetes"] = (here,)
            wanted[here, self._api_server[1]] = (Backend(*self._api_server),)
        await self._forward(wanted)
        self._isolation.publish(names)
        return _AGAIN if self._refused or self._closed else None

    def _used_addresses(self) -> set[str]:
        """Return the addresses of services, perhaps deleted ones, that have open connections."""
        self._closed = [each for each in self._closed if each[1].is_used]
        listening = ((address, each) for (address, _), each in self._forwarders.items())
        used = {address for address, each in (*listening, *self._closed) if each.is_used}
        return {service for service, address in self._held.items() if address in used}

    async def _forward(self, wanted: Mapping[tuple[str, int], tuple[Backend, ...]]) -> None:
        """Listen at the desired addresses and ports, and at no others."""
        for endpoint in self._forwarders.keys() - wanted.keys():
            self._forwarders[endpoint].close()
            self._closed.append((endpoint[0], self._forwarders.pop(endpoint)))
        self._refused &= wanted.keys()
        for endpoint, behind in wanted.items():
            if endpoint in self._forwarders:
                self._forwarders[endpoint].backends = behind
            else:
                await self._listen(endpoint, behind)

    async def _listen(self, endpoint: tuple[str, int], behind: tuple[Backend, ...]) -> None:
        forwarder = Forwarder(behind, self.admits)
        try:
            await forwarder.listen(*endpoint)
        except OSError as error:
            if endpoint not in self._refused:
                self._refused.add(endpoint)
                _log.warning(
                    "service not reachable", address=endpoint[0], port=endpoint[1], error=error
                )
            return
        self._refused.discard(endpoint)
        self._forwarders[endpoint] = forwarder

    def admits(self, peer: tuple[str, int], here: tuple[str, int]) -> bool:
        """Return whether a pod, or a process of a permitted user, connects."""
        return self._isolation.is_pod(peer[0]) or owner(peer, here) in self._permitted


def service_of_slice(item: RawEndpointSlice) -> list[str]:
    """Return the key of the service that a slice belongs to."""
    labels = item.metadata.labels or {}
    name = labels.get(_SERVICE_LABEL)
    return [f"{item.metadata.namespace}/{name}"] if name else []


def _cluster_addresses(services: Iterable[Service]) -> set[str]:
    """Return services' addresses, without the API server's, which all clusters share."""
    return {
        service.spec.cluster_ip
        for service in services
        if service.spec.cluster_ip not in {"", HEADLESS}
        and service.metadata.key != "default/kubernetes"
    }


def _everything(obj: KubeObject) -> tuple[str]:
    del obj
    return _ALL
