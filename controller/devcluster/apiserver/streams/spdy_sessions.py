"""Connections to pods over SPDY, for clients before kubectl 1.31 and client-go's SPDY executor.

For commands, each channel is a stream whose header `streamType` names it; the subprotocol is
`v4.channel.k8s.io`. For ports, see `PortForward`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.streams.hijacking import hijack
from controller.devcluster.apiserver.streams.port_forward import PortForward
from controller.devcluster.apiserver.streams.spdy import SpdyError
from controller.devcluster.apiserver.streams.spdy_channels import SpdyChannels, wanted_channels

if TYPE_CHECKING:
    from aiohttp import web

    from controller.devcluster.apiserver.streams.connections import Session

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
