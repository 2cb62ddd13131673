"""The service network: forwards service addresses to ready pods, and publishes names.

It follows Services and EndpointSlices, like the proxy and the DNS of a real node. A port without
a ready pod is not listened on, so that connections to it are refused at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import structlog
from msgspec import Struct

from controller.kube.objects import Service, ServicePort
from controller.kube.resources import SERVICES
from devcluster.nodes.components import (
    ComponentContext,
    Enqueue,
    LoopComponent,
    always,
)
from devcluster.nodes.endpointslices import service_of_slice
from devcluster.nodes.objects import ENDPOINT_SLICES, RawEndpointSlice
from devcluster.nodes.pods import PODS, KubeletPod
from devcluster.processes.pod_sandbox import Isolation

# The backends of a service, from the Service and its EndpointSlices.


HEADLESS = "None"


class Backend(Struct, frozen=True, order=True):
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


# The users of this machine who may reach pods: whoever reaches Ray acts as the user of Ray.


_TABLES = {Path("/proc/net/tcp"): "", Path("/proc/net/tcp6"): "0000000000000000FFFF0000"}
"""Tables of connections, with what stands before an IPv4 address in each."""
_LAST_UID = 4_294_967_294


def permitted_users(environment: Mapping[str, str] = os.environ) -> frozenset[int]:
    """Return the user ids of this process and of the user behind `sudo`."""
    behind = environment.get("SUDO_UID", "")
    return frozenset({os.getuid(), *([int(behind)] if behind.isdecimal() else [])})


def ranges_of_others(permitted: Collection[int]) -> list[str]:
    """Return all other user ids, in ranges as `ip rule` takes them."""
    found: list[str] = []
    first = 0
    for uid in (*sorted(permitted), _LAST_UID + 1):
        if first < uid:
            found.append(f"{first}-{uid - 1}")
        first = uid + 1
    return found


def owner(peer: tuple[str, int], here: tuple[str, int]) -> int | None:
    """Return the user at the other end of a connection within this machine's own network.

    Returns:
        The user id; None if no process of that network holds that end, as for one in a pod.
    """
    for table, before in _TABLES.items():
        wanted = [before + _in_table(peer), before + _in_table(here)]
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if fields[1:3] == wanted and fields[9] != "0":  # closed ends have no inode, no owner
                return int(fields[7])
    return None


def _in_table(endpoint: tuple[str, int]) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(endpoint[0]))
    return f"{number:08X}:{endpoint[1]:04X}"


_log = structlog.get_logger(__name__)

_CHUNK = 256 * 1024
_CONNECT = 5.0  # seconds for one backend


class Forwarder:
    """Forwards each new connection to the next of its current backends.

    Args:
        admits: whether a connection from a peer to an address here is forwarded; None forwards
            all. Each is an address and a port.

    Attributes:
        backends: may be replaced at any time; open connections are kept.
    """

    def __init__(
        self,
        backends: tuple[Backend, ...],
        admits: Callable[[tuple[str, int], tuple[str, int]], bool] | None = None,
    ) -> None:
        self.backends = backends
        self._admits = admits
        self._next = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def listen(self, address: str, port: int) -> None:
        """Begin to listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        self._server = await asyncio.start_server(self._accept, address, port, limit=_CHUNK)

    def close(self) -> None:
        """Stop listening; open connections stay, as they do when kube-proxy drops a service."""
        if self._server is not None:
            self._server.close()

    @property
    def is_used(self) -> bool:
        """True if connections are open."""
        return bool(self._connections)

    async def aclose(self) -> None:
        """Stop listening and cut all connections."""
        self.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._pass_on(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await self._connect() if self._is_admitted(writer) else None
            if there is None:
                _reset(writer)
                return
            try:
                await _both_ways((reader, writer), there)
            finally:
                there[1].close()
        finally:
            writer.close()

    def _is_admitted(self, writer: asyncio.StreamWriter) -> bool:
        if self._admits is None:
            return True
        peer, here = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        return peer is not None and self._admits(peer, here)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        backends = self.backends
        for _ in backends:
            self._next += 1
            backend = backends[self._next % len(backends)]
            with contextlib.suppress(OSError):
                async with asyncio.timeout(_CONNECT):
                    return await asyncio.open_connection(backend.ip, backend.port, limit=_CHUNK)
            _log.debug("backend does not answer", ip=backend.ip, port=backend.port)
        return None


def _reset(writer: asyncio.StreamWriter) -> None:
    """Reset the connection, as a closed port does."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _both_ways(
    here: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    there: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(here[0], there[1]))
            group.create_task(_copy(there[0], here[1]))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


_BY_SERVICE = "service-of-slice"
_AGAIN = 5.0  # seconds until an address that could not be bound is tried again


class ServiceNetwork(LoopComponent[str]):
    """Reconciles forwarders and names with Services and EndpointSlices.

    Args:
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
        super().__init__("network", context)
        services = context.caches.informer(SERVICES)
        services.add_handler(Enqueue(self._loop.add, always("network")), name="network")
        self._services = services.lister
        slices = context.caches.informer(ENDPOINT_SLICES)
        slices.add_index(_BY_SERVICE, service_of_slice)
        slices.add_handler(Enqueue(self._loop.add, always("network")), name="network")
        self._slices = slices.lister
        self._pods = context.caches.informer(PODS).lister
        self._forwarders: dict[tuple[str, int], Forwarder] = {}
        self._closed: list[tuple[str, Forwarder]] = []
        self._refused: set[tuple[str, int]] = set()
        self._held: Mapping[str, str] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        self._loop.add("network")
        try:
            await super().run()
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


def _cluster_addresses(services: Iterable[Service]) -> set[str]:
    """Return services' addresses, without the API server's, which all clusters share."""
    return {
        service.spec.cluster_ip
        for service in services
        if service.spec.cluster_ip not in {"", HEADLESS}
        and service.metadata.key != "default/kubernetes"
    }
