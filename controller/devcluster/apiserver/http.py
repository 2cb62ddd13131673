"""The embedded API server on a loopback port, for kubectl and other processes."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from aiohttp import web

from controller.devcluster.apiserver.jsondata import encode
from controller.devcluster.apiserver.status import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from controller.devcluster.apiserver.server import ApiServer

_LOG = logging.getLogger(__name__)

MAX_BODY = 16 * 1024 * 1024


class HttpServer:
    """A running HTTP server.

    Attributes:
        port: the port that it listens on.
    """

    def __init__(self, runner: web.AppRunner, port: int) -> None:
        self._runner = runner
        self.port = port

    async def aclose(self) -> None:
        """Stop listening and end all connections."""
        await self._runner.cleanup()


async def serve(server: ApiServer, host: str = "127.0.0.1", port: int = 0) -> HttpServer:
    """Serve an API server over plain HTTP.

    Args:
        server: what answers.
        host: address to listen on; there is no authentication, so keep it on loopback.
        port: 0 for any free one.

    Raises:
        OSError: the port is taken.
    """
    application = web.Application(client_max_size=MAX_BODY)
    application.router.add_route("*", "/{path:.*}", _Bridge(server).handle)
    runner = web.AppRunner(
        application, access_log=None, shutdown_timeout=1.0, handler_cancellation=True
    )
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    try:
        await site.start()
    except OSError:
        await runner.cleanup()
        raise
    return HttpServer(runner, runner.addresses[0][1])


class _Bridge:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on and stream the answer back."""
        body = await request.read()
        try:
            status, headers, chunks = await self._server.request(
                request.method, request.path, dict(request.query), request.headers, body or None
            )
        except Exception:  # noqa: BLE001 - one broken request must not end the server
            _LOG.exception("%s %s failed", request.method, request.path)
            error = ApiError(500, "InternalError", "an error on the server; see its log")
            return web.Response(
                status=500, body=encode(error.body()), content_type="application/json"
            )
        async with contextlib.aclosing(chunks):
            return await _stream(request, status, headers, chunks)


async def _stream(
    request: web.Request,
    status: int,
    headers: Mapping[str, str],
    chunks: AsyncGenerator[bytes, None],
) -> web.StreamResponse:
    response = web.StreamResponse(status=status, headers=dict(headers))
    await response.prepare(request)
    try:
        async for chunk in chunks:
            await response.write(chunk)
        await response.write_eof()
    except ConnectionError:
        _LOG.debug("client of %s went away", request.path)
    return response
