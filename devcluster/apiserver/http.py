"""The embedded API server on a loopback port, for kubectl and other processes."""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections.abc import AsyncGenerator, Mapping

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from devcluster.apiserver.authentication import Guard, Refused, User
from devcluster.apiserver.messages import ApiRequest, lower_case
from devcluster.apiserver.objects import encode
from devcluster.apiserver.server import ApiServer
from devcluster.apiserver.sessions import is_upgrade, serve_session
from devcluster.apiserver.status import ApiError

_LOG = logging.getLogger(__name__)
_CONNECTIONS = logging.getLogger(f"{__name__}.connections")
_CONNECTIONS.addFilter(lambda record: not _is_malformed(record))

MAX_BODY = 16 * 1024 * 1024


class HttpServer:
    """A running HTTP server."""

    def __init__(self, runner: web.AppRunner, port: int) -> None:
        self._runner = runner
        self.port = port

    async def aclose(self) -> None:
        """Stop listening and end all connections."""
        await self._runner.cleanup()


async def serve(
    server: ApiServer,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    guard: Guard | None = None,
    tls: ssl.SSLContext | None = None,
) -> HttpServer:
    """Serve an API server over HTTP, or HTTPS with `tls`; without a `guard` everybody is admitted.

    Raises:
        OSError: the port is taken.
    """
    application = web.Application(client_max_size=MAX_BODY)
    bridge = _Bridge(server, guard)
    application.router.add_route(
        "*", "/{path:.*}", bridge.handle, expect_handler=bridge.expect_continue
    )
    runner = web.AppRunner(
        application,
        access_log=None,
        logger=_CONNECTIONS,
        shutdown_timeout=1.0,
        handler_cancellation=True,
        lingering_time=0.0,
    )
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=tls)
    try:
        await site.start()
    except OSError:
        await runner.cleanup()
        raise
    return HttpServer(runner, runner.addresses[0][1])


def _is_malformed(record: logging.LogRecord) -> bool:
    """Return whether a client has sent something that is not a request."""
    return bool(record.exc_info) and isinstance(record.exc_info[1], HttpProcessingError)


class _Bridge:
    def __init__(self, server: ApiServer, guard: Guard | None) -> None:
        self._server = server
        self._guard = guard

    async def expect_continue(self, request: web.Request) -> web.StreamResponse | None:
        """Ask the client for its body, unless the request is refused."""
        try:
            self._sender(request)
        except Refused as error:
            return _refusal(error)
        assert request.transport is not None
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on and stream the answer back."""
        try:
            sender = self._sender(request)
        except Refused as error:
            return _refusal(error)
        if is_upgrade(request):
            return await self._connect(request, sender)
        body = await request.read()
        try:
            status, headers, chunks = await self._server.request(
                ApiRequest(
                    request.method,
                    request.path,
                    dict(request.query),
                    lower_case(request.headers),
                    body or None,
                ),
                sender=sender,
            )
        except Exception:  # noqa: BLE001 - one broken request must not end the server
            _LOG.exception("%s %s failed", request.method, request.path)
            error = ApiError(500, "InternalError", "an error on the server; see its log")
            return web.Response(
                status=500, body=encode(error.body()), content_type="application/json"
            )
        async with contextlib.aclosing(chunks):
            return await _stream(request, status, headers, chunks)

    async def _connect(self, request: web.Request, sender: User | None) -> web.StreamResponse:
        try:
            session = self._server.connect(
                request.path,
                dict(request.query),
                request.headers,
                request.query.getall("command", []),
                sender=sender,
            )
        except ApiError as error:
            return _refusal(error)
        return await serve_session(request, session)

    def _sender(self, request: web.Request) -> User | None:
        return self._guard.user(request.headers) if self._guard else None


def _refusal(error: ApiError) -> web.Response:
    response = web.Response(
        status=error.code, body=encode(error.body()), content_type="application/json"
    )
    response.force_close()
    return response


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
