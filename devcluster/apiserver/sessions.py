"""Two-way connections to pods: sessions and forwarded ports, over WebSockets and SPDY."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from aiohttp import WSMsgType, web
from msgspec import Struct

from devcluster.apiserver.messages import ResourcePath
from devcluster.apiserver.spdy import ByteStream, SpdyConnection, SpdyError, SpdyStream

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
"""Channels. The last message of the kubelet is a `Status` on `ERROR`; the client's messages on
`RESIZE` are sizes of its terminal."""

CONNECTIONS = frozenset({"exec", "portforward"})
"""Subresources of pods that need a two-way connection."""


class Channels(Protocol):
    """The client's end of a connection."""

    async def receive(self) -> tuple[int, bytes] | None:
        """Return the next message and its channel; empty data ends the channel.

        None when the client has gone, unless the session is cancelled then.
        """
        ...

    async def send(self, channel: int, data: bytes) -> None:
        """Send a message; does nothing when the client has gone."""
        ...


class ConnectionRequest(Struct, frozen=True):
    """The pod and command to which a client wants to be connected."""

    where: ResourcePath
    pod: dict[str, Any]
    query: Mapping[str, str]
    command: tuple[str, ...]

    def wants(self, name: str) -> bool:
        """Return whether a parameter is true."""
        return asks_for(self.query, name)


def asks_for(query: Mapping[str, str], name: str) -> bool:
    """Return whether a parameter of a connection is true."""
    return query.get(name, "").lower() in {"1", "true"}


Session: TypeAlias = Callable[[Channels], Awaitable[None]]
"""Serves one connection to its end."""
ConnectionHook: TypeAlias = Callable[[ConnectionRequest], Session]
"""The kubelet's part in a connection; raises `ApiError` if there is none."""


_LOG = logging.getLogger(__name__)
_CHUNK = 64 * 1024
_CONNECT = 10.0  # seconds


class PortForward:
    """Serves one client."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._unpaired: dict[str, SpdyStream] = {}
        self._connections: set[asyncio.Task[None]] = set()

    async def __call__(self, pipe: ByteStream) -> None:
        """Serve the client until it has gone; then cut all its connections.

        Raises:
            SpdyError: the client does not speak SPDY/3.1.
        """
        try:
            await SpdyConnection(pipe, self._accept).serve()
        finally:
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, stream: SpdyStream) -> None:
        """Connect when both streams of a connection are there."""
        pair = stream.headers.get("requestid", "")
        other = self._unpaired.pop(pair, None)
        if other is None:
            self._unpaired[pair] = stream
            return
        is_error = stream.headers.get("streamtype") == "error"
        error, data = (stream, other) if is_error else (other, stream)
        task = asyncio.create_task(self._connect(error, data))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connect(self, error: SpdyStream, data: SpdyStream) -> None:
        port = data.headers.get("port", "")
        try:
            async with asyncio.timeout(_CONNECT):
                reader, writer = await asyncio.open_connection(self._address, int(port))
        except (OSError, ValueError, OverflowError) as failure:
            why = str(failure) or "no answer in time"
            await error.send(f"cannot reach port {port} of the pod: {why}".encode())
        else:
            await _both_ways(data, reader, writer)
        await data.end()
        await error.end()


async def _both_ways(
    data: SpdyStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Copy until the pod has ended its half, or sends to a client that has reset the stream.

    What the client still sends is dropped then.
    """
    sending = asyncio.create_task(_send(data, writer))
    try:
        with suppress(ConnectionError):
            while (chunk := await reader.read(_CHUNK)) and not data.has_ended:
                await data.send(chunk)
    finally:
        sending.cancel()
        await asyncio.wait({sending})
        writer.close()


async def _send(data: SpdyStream, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await data.receive():
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


# WebSockets.


_CLOSE = 255
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_TUNNEL = "SPDY/3.1+portforward.k8s.io"
_PING = 20.0  # seconds
_ENDS = {WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING, WSMsgType.ERROR}


def _is_websocket(request: web.Request) -> bool:
    """Return whether a request asks for a WebSocket with one of the subprotocols."""
    offered = request.headers.get("Sec-WebSocket-Protocol", "").replace(" ", "").split(",")
    upgrade = request.headers.get("Upgrade", "").lower()
    return upgrade == "websocket" and bool(set(offered) & {*_PROTOCOLS, _TUNNEL})


async def _serve_on_websocket(
    request: web.Request, session: Session | PortForward
) -> web.StreamResponse:
    protocols = (_TUNNEL,) if isinstance(session, PortForward) else _PROTOCOLS
    socket = web.WebSocketResponse(protocols=protocols, max_msg_size=0, heartbeat=_PING)
    await socket.prepare(request)
    try:
        if isinstance(session, PortForward):
            await session(_Pipe(socket))
        else:
            await session(_Channels(socket))
    except SpdyError as error:
        _LOG.debug("%s: %s", request.path, error)
    finally:
        await socket.close()
    return socket


class _Pipe:
    """Implements `ByteStream`."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._sending = asyncio.Lock()

    async def receive(self) -> bytes | None:
        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                return message.data
            if message.type in _ENDS:
                return None

    async def send(self, data: bytes) -> None:
        async with self._sending:
            if not self._socket.closed:
                with suppress(ConnectionError):
                    await self._socket.send_bytes(data)


class _Channels:
    """Implements `Channels`."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._pipe = _Pipe(socket)

    async def receive(self) -> tuple[int, bytes] | None:
        while (data := await self._pipe.receive()) is not None:
            if len(data) > 1 and data[0] == _CLOSE:
                return data[1], b""
            if len(data) > 1:  # clients begin with an empty message on each channel
                return data[0], data[1:]
        return None

    async def send(self, channel: int, data: bytes) -> None:
        await self._pipe.send(bytes([channel]) + data)


# SPDY, which client-go's executor and its port-forward speak.


async def _hijack(request: web.Request, headers: Mapping[str, str]) -> _HijackedConnection:
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
    return _HijackedConnection(
        response, reader, asyncio.StreamWriter(transport, protocol, reader, loop)
    )


class _HijackedConnection:
    """Implements `ByteStream`; the handler of the request must return its `response`."""

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
        with suppress(OSError):
            return await self._reader.read(_CHUNK) or None
        return None

    async def send(self, data: bytes) -> None:
        if not self._writer.is_closing():
            with suppress(OSError):
                self._writer.write(data)
                await self._writer.drain()

    def close(self) -> None:
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


_SPDY = "SPDY/3.1"
_VERSION = "X-Stream-Protocol-Version"
_COMMANDS = "v4.channel.k8s.io"
_PORTS = "portforward.k8s.io"


def _is_spdy(request: web.Request) -> bool:
    """Return whether a request asks for SPDY with one of the subprotocols."""
    offered = ",".join(request.headers.getall(_VERSION, [])).replace(" ", "").split(",")
    upgrade = request.headers.get("Upgrade", "").lower()
    return upgrade == _SPDY.lower() and bool({_COMMANDS, _PORTS} & set(offered))


async def _serve_on_spdy(
    request: web.Request, session: Session | PortForward
) -> web.StreamResponse:
    version = _PORTS if isinstance(session, PortForward) else _COMMANDS
    headers = {"Connection": "Upgrade", "Upgrade": _SPDY, _VERSION: version}
    connection = await _hijack(request, headers)
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


def is_upgrade(request: web.Request) -> bool:
    """Return whether a request asks for a protocol that is spoken here."""
    asks = "upgrade" in request.headers.get("Connection", "").lower()
    return asks and (_is_websocket(request) or _is_spdy(request))


async def serve_session(request: web.Request, session: Session | PortForward) -> web.StreamResponse:
    """Accept the upgrade and serve a session on it."""
    serve = _serve_on_websocket if _is_websocket(request) else _serve_on_spdy
    return await serve(request, session)
