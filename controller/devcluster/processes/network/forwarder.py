"""A listener that forwards TCP connections to one of several backends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.devcluster.processes.network.backends import Backend

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
