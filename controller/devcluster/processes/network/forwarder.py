"""Where the services of pods lead: their backends, who may reach them, and who forwards to them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from controller.devcluster.nodes.objects import RawEndpointSlice
    from controller.kube.objects import Service, ServicePort


# The backends of a service, from the Service and its EndpointSlices.


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

    Args:
        peer: address and port of that end.
        here: address and port of this end.

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
        backends: targets of the connections.
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
        """Return a connection to the next backend that accepts one."""
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
    """Copy until both ends are closed or one fails."""
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
