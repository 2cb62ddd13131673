"""Connections to pods over WebSocket: each message begins with the number of its channel.

The subprotocols are `v5.channel.k8s.io`, in which a message on channel 255 names a channel that
the client has closed, and `v4.channel.k8s.io`, which lacks that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

if TYPE_CHECKING:
    from controller.devcluster.apiserver.connections import Session

_CLOSE = 255
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_PING = 20.0  # seconds
_ENDS = {WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING, WSMsgType.ERROR}


def is_upgrade(request: web.Request) -> bool:
    """Whether a request asks for another protocol."""
    return "upgrade" in request.headers.get("Connection", "").lower()


def is_websocket(request: web.Request) -> bool:
    """Whether it asks for a WebSocket with one of the subprotocols."""
    offered = request.headers.get("Sec-WebSocket-Protocol", "").replace(" ", "").split(",")
    upgrade = request.headers.get("Upgrade", "").lower()
    return upgrade == "websocket" and bool(set(offered) & set(_PROTOCOLS))


async def serve_session(request: web.Request, session: Session) -> web.StreamResponse:
    """Accept the WebSocket and serve a session on it."""
    socket = web.WebSocketResponse(
        protocols=_PROTOCOLS, max_msg_size=0, heartbeat=_PING, autoclose=True
    )
    await socket.prepare(request)
    try:
        await session(_Channels(socket))
    finally:
        await socket.close()
    return socket


class _Channels:
    """See `Channels`."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._sending = asyncio.Lock()

    async def receive(self) -> tuple[int, bytes] | None:
        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY and message.data:
                data: bytes = message.data
                if data[0] == _CLOSE:
                    return data[1], b""
                if len(data) > 1:  # clients begin with an empty message on each channel
                    return data[0], data[1:]
            elif message.type in _ENDS:
                return None

    async def send(self, channel: int, data: bytes) -> None:
        async with self._sending:
            if not self._socket.closed:
                try:
                    await self._socket.send_bytes(bytes([channel]) + data)
                except ConnectionError:
                    return
