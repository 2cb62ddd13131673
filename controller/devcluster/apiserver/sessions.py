"""Two-way connections to pods, as sessions or forwarded ports, and their WebSockets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from aiohttp import WSMsgType, web
from msgspec import Struct

from controller.devcluster.apiserver.messages import ResourcePath
from controller.devcluster.apiserver.spdy import ByteStream, SpdyConnection, SpdyError, SpdyStream

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


_CHUNK = 32 * 1024
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


_LOG = logging.getLogger(__name__)

_CLOSE = 255
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_TUNNEL = "SPDY/3.1+portforward.k8s.io"
_PING = 20.0  # seconds
_ENDS = {WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING, WSMsgType.ERROR}


def is_websocket(request: web.Request) -> bool:
    """Return whether a request asks for a WebSocket with one of the subprotocols."""
    offered = request.headers.get("Sec-WebSocket-Protocol", "").replace(" ", "").split(",")
    upgrade = request.headers.get("Upgrade", "").lower()
    return upgrade == "websocket" and bool(set(offered) & {*_PROTOCOLS, _TUNNEL})


async def serve_session(request: web.Request, session: Session | PortForward) -> web.StreamResponse:
    """Accept the WebSocket and serve a session on it."""
    protocols = (_TUNNEL,) if isinstance(session, PortForward) else _PROTOCOLS
    socket = web.WebSocketResponse(protocols=protocols, max_msg_size=0, heartbeat=_PING)
    await socket.prepare(request)
    try:
        if isinstance(session, PortForward):
            await session(_Pipe(socket))
        else:
            await session(_Channels(socket))
    except SpdyError as error:
        _LOG.debug("port-forward: %s", error)
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
