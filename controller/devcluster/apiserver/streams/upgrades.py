"""Requests for a two-way connection: over WebSocket, or over SPDY as older clients ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.streams import spdy_sessions, websockets

if TYPE_CHECKING:
    from aiohttp import web

    from controller.devcluster.apiserver.streams.connections import Session
    from controller.devcluster.apiserver.streams.port_forward import PortForward


def is_upgrade(request: web.Request) -> bool:
    """Return whether a request asks for a protocol that is spoken here."""
    asks = "upgrade" in request.headers.get("Connection", "").lower()
    return asks and (websockets.is_websocket(request) or spdy_sessions.is_spdy(request))


async def serve_session(request: web.Request, session: Session | PortForward) -> web.StreamResponse:
    """Switch to the protocol that the request asks for and serve a session."""
    protocol = websockets if websockets.is_websocket(request) else spdy_sessions
    return await protocol.serve_session(request, session)
