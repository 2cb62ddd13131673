"""Connections to pods over SPDY, for clients before kubectl 1.31 and client-go's SPDY executor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from aiohttp import web

from controller.devcluster.apiserver.sessions import (
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    PortForward,
    Session,
    asks_for,
)
from controller.devcluster.apiserver.spdy import ByteStream, SpdyConnection, SpdyError, SpdyStream

_CHUNK = 64 * 1024


async def hijack(request: web.Request, headers: Mapping[str, str]) -> HijackedConnection:
    """Take the connection of a request and answer 101 Switching Protocols.

    The request's handler is cancelled when the client has gone, as usual.
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


_CHANNELS = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
_OPENING = 30.0  # seconds until the client must have opened all streams
_FAREWELL = 5.0  # seconds that the client has to read the rest
_LINE = 1024  # bytes of a size of a terminal


def wanted_channels(query: Mapping[str, str]) -> frozenset[int]:
    """Return the channels that a client opens according to its parameters."""
    asked = {name for name in ("stdin", "stdout", "stderr", "tty") if asks_for(query, name)}
    if "tty" in asked:
        asked = asked - {"stderr"} | {"resize"}
    return frozenset(_CHANNELS[name] for name in asked - {"tty"} | {"error"})


class SpdyChannels:
    """Implements `Channels`.

    Args:
        wanted: channels for which the client opens a stream; data on others is dropped.
    """

    def __init__(self, pipe: ByteStream, wanted: frozenset[int]) -> None:
        self._connection = SpdyConnection(pipe, self._accept)
        self._wanted = wanted
        self._streams: dict[int, SpdyStream] = {}
        self._complete = asyncio.Event()
        self._messages: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(1)

    async def serve(self, session: Session) -> None:
        """Serve a session until it ends; it is cancelled when the client has gone.

        Raises:
            SpdyError: the client does not speak SPDY/3.1, or opens other streams.
        """
        reading = asyncio.create_task(self._connection.serve())
        working = asyncio.create_task(self._work(session))
        try:
            await asyncio.wait({reading, working}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
                await asyncio.wait({reading}, timeout=_FAREWELL)
            if reading.done():
                reading.result()
        finally:
            reading.cancel()
            working.cancel()
            await asyncio.gather(reading, working, return_exceptions=True)

    async def receive(self) -> tuple[int, bytes] | None:
        """Implement `Channels.receive`."""
        return await self._messages.get()

    async def send(self, channel: int, data: bytes) -> None:
        """Implement `Channels.send`."""
        if stream := self._streams.get(channel):
            await stream.send(data)

    def _accept(self, stream: SpdyStream) -> None:
        name = stream.headers.get("streamtype", "")
        channel = _CHANNELS.get(name, -1)
        if channel not in self._wanted or channel in self._streams:
            raise SpdyError(f"an unexpected stream {name!r}")
        self._streams[channel] = stream
        if self._streams.keys() == self._wanted:
            self._complete.set()

    async def _work(self, session: Session) -> None:
        try:
            async with asyncio.timeout(_OPENING):
                await self._complete.wait()
        except TimeoutError as error:
            raise SpdyError("streams are missing") from error
        passing = [
            asyncio.create_task(pass_on(self._streams[channel]))
            for channel, pass_on in ((STDIN, self._pass_input), (RESIZE, self._pass_sizes))
            if channel in self._streams
        ]
        try:
            await session(self)
            for stream in self._streams.values():
                await stream.end()
        finally:
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)

    async def _pass_input(self, stream: SpdyStream) -> None:
        while data := await stream.receive():
            await self._messages.put((STDIN, data))
        await self._messages.put((STDIN, b""))

    async def _pass_sizes(self, stream: SpdyStream) -> None:
        """Cut the stream into lines, by which clients separate sizes."""
        rest = b""
        while data := await stream.receive():
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[:_LINE]
            for line in filter(None, lines):
                await self._messages.put((RESIZE, line))


_LOG = logging.getLogger(__name__)

_SPDY = "SPDY/3.1"
_VERSION = "X-Stream-Protocol-Version"
_COMMANDS = "v4.channel.k8s.io"
_PORTS = "portforward.k8s.io"


def is_spdy(request: web.Request) -> bool:
    """Return whether a request asks for SPDY with one of the subprotocols."""
    offered = ",".join(request.headers.getall(_VERSION, [])).replace(" ", "").split(",")
    upgrade = request.headers.get("Upgrade", "").lower()
    return upgrade == _SPDY.lower() and bool({_COMMANDS, _PORTS} & set(offered))


async def serve_session(request: web.Request, session: Session | PortForward) -> web.StreamResponse:
    """Switch to SPDY and serve a session."""
    version = _PORTS if isinstance(session, PortForward) else _COMMANDS
    headers = {"Connection": "Upgrade", "Upgrade": _SPDY, _VERSION: version}
    connection = await hijack(request, headers)
    try:
        if isinstance(session, PortForward):
            await session(connection)
        else:
            await SpdyChannels(connection, wanted_channels(request.query)).serve(session)
    except SpdyError as error:
        _LOG.debug("%s: %s", request.path, error)
    finally:
        connection.close()
    return connection.response
