"""Connections to pods over WebSocket.

For commands, each message begins with the number of its channel. The subprotocols are
`v5.channel.k8s.io`, in which a message on channel 255 names a channel that the client has closed,
and `v4.channel.k8s.io`, which lacks that. For ports, messages are pieces of a SPDY connection.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from controller.devcluster.apiserver.streams.port_forward import PortForward
from controller.devcluster.apiserver.streams.spdy import SpdyError

if TYPE_CHECKING:
    from controller.devcluster.apiserver.streams.connections import Session

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
