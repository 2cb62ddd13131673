"""The bare connection below an HTTP request, for a protocol that the HTTP server does not speak."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHUNK = 64 * 1024


async def hijack(request: web.Request, headers: Mapping[str, str]) -> HijackedConnection:
    """Take the connection of a request and answer 101 Switching Protocols.

    The request's handler is cancelled when the client has gone, as usual.

    Args:
        request: its handler must answer with `response` at the end.
        headers: headers of the answer.
    """
    transport = request.transport
    assert transport is not None
    reader = asyncio.StreamReader()
    protocol = _Protocol(reader, request.protocol)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    response = web.StreamResponse(status=101, headers=dict(headers))
    response.force_close()
    await response.prepare(request)
    loop = asyncio.get_running_loop()
    return HijackedConnection(
        response, reader, asyncio.StreamWriter(transport, protocol, reader, loop)
    )


class HijackedConnection:
    """Implements `ByteStream`.

    Attributes:
        response: response that the handler must return.
    """

    def __init__(
        self,
        response: web.StreamResponse,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.response = response
        self._reader = reader
        self._writer = writer

    async def receive(self) -> bytes | None:
        """Implement `ByteStream.receive`."""
        with suppress(OSError):
            return await self._reader.read(_CHUNK) or None
        return None

    async def send(self, data: bytes) -> None:
        """Implement `ByteStream.send`."""
        if not self._writer.is_closing():
            with suppress(OSError):
                self._writer.write(data)
                await self._writer.drain()

    def close(self) -> None:
        """Close it after all data is sent."""
        self._writer.close()


class _Protocol(asyncio.StreamReaderProtocol):
    def __init__(self, reader: asyncio.StreamReader, former: asyncio.BaseProtocol) -> None:
        super().__init__(reader)
        self._former = former

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._former.connection_lost(exc)
