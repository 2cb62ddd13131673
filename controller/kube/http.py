"""The transport over HTTP: connections, TLS, time limits, credentials.

A failed request raises `NotSent` if no connection was established and `OutcomeUnknown`
otherwise. Statuses are passed through, redirects are not followed, and the proxy variables of
the environment are ignored.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from asyncio import sslproto
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import ContextVar
from importlib import import_module
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote, urlencode
from weakref import WeakSet

from msgspec import Struct
from yarl import URL

from controller.kube.credentials import Credentials
from controller.kube.errors import NotSent, OutcomeUnknown
from controller.kube.transport import NO_METRICS, ClientMetrics, RawResponse, Request

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter, ResolveResult
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

# Imports aiohttp without 2.7 MiB that an operator never uses.
#
# aiohttp reads the system's certificates twice, for connections that are given no TLS context: here
# all have one, and one without trusts nobody. The compiled part of `frozenlist` brings the runtime
# of C++ for lists of callbacks, of which there are none.

_MEANWHILE: Final = {
    "SSL_CERT_FILE": os.devnull,
    "SSL_CERT_DIR": os.devnull,
    "FROZENLIST_NO_EXTENSIONS": "1",
}


def _import() -> None:
    before = {name: os.environ.get(name) for name in _MEANWHILE}
    os.environ.update(_MEANWHILE)
    try:
        import_module("aiohttp")
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


_import()

import aiohttp as aiohttp  # noqa: E402, PLC0414  for others to import from here

# A time limit that holds in clean-up too.


async def ends_within(seconds: float, work: Coroutine[Any, Any, Any]) -> bool:
    """Do the work in a task of its own; return False if the time limit cancelled it.

    Up to Python 3.11.3 `asyncio.timeout` expires with CancelledError in a task that was cancelled
    earlier, such as one that is cleaning up. A new task was not cancelled, so time limits within
    the work hold too.

    Raises:
        Exception: what the work raises.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
        await asyncio.wait({task})
    if task.cancelled():
        return False
    task.result()
    return True


_PATH_SAFE = "/:~!$&'()*+,;=@"

_KEEPALIVE_IDLE = 30
_KEEPALIVE_INTERVAL = 10
_KEEPALIVE_PROBES = 3
_USER_TIMEOUT = 60_000
"""Milliseconds after which the kernel drops a connection with unacknowledged data."""

_CLOSE_TIMEOUT = 1.0
"""Seconds for the TLS shutdown of closed connections before the loop ends."""

KEPT_IDLE: Final = 45.0
"""Seconds for which an unused connection is kept.

Longer than the interval between two checks for optional resources, since a new connection costs a
TLS handshake; shorter than the limits of servers and load balancers.
"""

READ_BUFFER: Final = 8 * 1024
"""Bytes that a TLS connection reads at a time: most answers and events are shorter."""


class Timeouts(Struct, frozen=True):
    """Time limits of requests, in seconds.

    Attributes:
        connect: limit for name resolution, TCP and TLS together.
        idle: limit between two chunks of an ordinary response. The API server ends any request
            after a minute.
        total: limit for a whole ordinary request; callers usually set less.
        watch_grace: seconds added to the `timeoutSeconds` of a watch (INF-24).
        watch_total: limit for a watch without `timeoutSeconds`.
    """

    connect: float = 10.0
    idle: float = 65.0
    total: float = 120.0
    watch_grace: float = 10.0
    watch_total: float = 3600.0


def limit_read_buffers() -> None:
    """Let all TLS connections of this process have small read buffers.

    asyncio fills a buffer of 256 KiB for each connection, and each watch has a connection.
    """
    sslproto.SSLProtocol.max_size = READ_BUFFER


class HttpTransport:
    """`Transport` over HTTP/1.1. Created and used inside one running event loop.

    Watches have connections of their own, so that they neither starve nor delay writes.

    Args:
        credentials: closed together with the transport.
        timeouts: limits of all waits.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        user_agent: str = "manta-operator",
        timeouts: Timeouts | None = None,
        metrics: ClientMetrics = NO_METRICS,
    ) -> None:
        self._user_agent = user_agent
        self._credentials = credentials
        self._timeouts = timeouts or Timeouts()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._requests = _session(self._open, metrics)
        self._watches = _session(self._open, metrics)
        self._refreshing = asyncio.Lock()

    async def request(self, request: Request) -> RawResponse:
        """Send a request; see `Transport.request`.

        After a 401 the credentials are refreshed and the request is sent once more.
        """
        authorization = await self._credentials.authorization()
        answer = await self._exchange(request, authorization)
        if answer.status == 401:
            answer.close()
            await self._refresh(authorization)
            answer = await self._exchange(request, await self._credentials.authorization())
        fields = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, fields, _Body(answer)

    async def aclose(self) -> None:
        """Close all connections and the credentials."""
        await self._requests.close()
        await self._watches.close()
        await self._credentials.aclose()
        await ends_within(_CLOSE_TIMEOUT, self._closed())

    async def _closed(self) -> None:
        """Wait until TLS has shut down, which happens in the background."""
        while any(each.fileno() >= 0 for each in self._sockets):  # noqa: ASYNC110  sockets have no event for it
            await asyncio.sleep(0.01)

    def _open(self, address: tuple[Any, ...]) -> socket.socket:
        made = _socket(address)
        self._sockets.add(made)
        return made

    async def _exchange(self, request: Request, authorization: str) -> aiohttp.ClientResponse:
        session = self._watches if request.watching else self._requests
        endpoint = self._credentials.endpoint
        headers = {"user-agent": self._user_agent, **request.headers}
        if authorization:
            headers["authorization"] = authorization
        try:
            return await session.request(
                request.method,
                _url(endpoint.url, request),
                data=request.body,
                headers=headers,
                timeout=self._limits(request),
                allow_redirects=False,
                ssl=self._credentials.ssl_context() or True,
                server_hostname=endpoint.server_name or None,
                proxy=endpoint.proxy or None,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise _classified(error, str(request)) from error

    async def _refresh(self, rejected: str) -> None:
        """Replace the credentials `rejected`; concurrent callers do it only once."""
        async with self._refreshing:
            if await self._credentials.authorization() == rejected:
                await self._credentials.refresh()

    def _limits(self, request: Request) -> aiohttp.ClientTimeout:
        limits = self._timeouts
        total, silence = limits.total, limits.idle
        if request.watching:
            asked = request.query.get("timeoutSeconds", "")
            total = float(asked) + limits.watch_grace if asked.isdigit() else limits.watch_total
            silence = total
        return aiohttp.ClientTimeout(total=total, sock_connect=limits.connect, sock_read=silence)


class _Body(AsyncGenerator[bytes, None]):
    """Chunks of one response as they arrive.

    Not a generator function: closing one that was never started does not run its `finally`, so
    the connection of an unread response would leak.
    """

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self._chunks = aiter(answer.content.iter_any())
        self._closed = False

    async def asend(self, _value: None) -> bytes:
        if self._closed:
            raise StopAsyncIteration
        try:
            return await anext(self._chunks)
        except (aiohttp.ClientError, OSError) as error:
            await self.aclose()
            raise _classified(error, self._answer.url.path) from error
        except BaseException:
            await self.aclose()
            raise

    async def athrow(self, typ: Any, _value: Any = None, _traceback: Any = None) -> bytes:
        await self.aclose()
        raise typ

    async def aclose(self) -> None:
        self._closed = True
        connection = self._answer.connection
        if connection is not None and connection.transport is not None:
            # The body is not complete: an orderly TLS shutdown would wait for the peer.
            connection.transport.abort()
        self._answer.close()


class _TimedResolver(aiohttp.ThreadedResolver):
    """Records how long each name took; tracing would cost every request something."""

    def __init__(self, metrics: ClientMetrics) -> None:
        super().__init__()
        self._metrics = metrics

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        started = time.monotonic()
        try:
            return await super().resolve(host, port, family)
        finally:
            self._metrics.record_resolution(time.monotonic() - started)


BEFORE_SENDING: Final[ContextVar[Callable[[], None]]] = ContextVar(
    "before_sending", default=lambda: None
)
"""Called between the connection and the first byte of a request; may raise `NotSent`."""


class _CheckedRequest(aiohttp.ClientRequest):
    """A request that is checked once it has a connection: to get one may take a second."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        BEFORE_SENDING.get()()
        return await super().send(conn)

    async def write_bytes(
        self,
        writer: AbstractStreamWriter,
        conn: Connection,
        content_length: int | None = None,
    ) -> None:
        # In Python 3.11 this is a task that begins a turn of the loop after `send`. Nothing has
        # been written yet: aiohttp writes the headers with the body.
        try:
            BEFORE_SENDING.get()()
        except NotSent as error:
            assert conn.protocol is not None
            conn.protocol.set_exception(error)  # `request` waits there, and raises it
            return
        await super().write_bytes(writer, conn, content_length)


class _Connections(aiohttp.TCPConnector):
    """Takes the connection that was used last, so that those of a burst are closed soon.

    aiohttp takes the one that was used first: a request every other second would keep a hundred.
    """

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        if (unused := self._conns.get(key)) is not None:
            unused.rotate(1)
        return await super()._get(key, traces)


def _session(
    open_socket: Callable[[tuple[Any, ...]], socket.socket], metrics: ClientMetrics
) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=_Connections(
            limit=0,
            keepalive_timeout=KEPT_IDLE,
            resolver=_TimedResolver(metrics),
            socket_factory=open_socket,
        ),
        request_class=_CheckedRequest,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"accept-encoding": "identity"},
        skip_auto_headers=("user-agent", "content-type"),
        trust_env=False,
    )
    # aiohttp silently repeats a PUT or DELETE whose connection broke: the second response
    # (409, 404) would hide that the first request succeeded.
    session._retry_connection = False  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return session


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket that detects a dead peer within about a minute."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": _KEEPALIVE_IDLE,
        "TCP_KEEPINTVL": _KEEPALIVE_INTERVAL,
        "TCP_KEEPCNT": _KEEPALIVE_PROBES,
        "TCP_USER_TIMEOUT": _USER_TIMEOUT,
    }
    for name, value in options.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def _url(base: str, request: Request) -> URL:
    url = base + quote(request.path, safe=_PATH_SAFE)
    return URL(f"{url}?{urlencode(request.query)}" if request.query else url, encoded=True)


def _classified(error: Exception, request: str) -> NotSent | OutcomeUnknown:
    """Return the exception for `error`: `NotSent` if no connection was established."""
    text = f"{request}: {_description(error)}"
    never_connected = (
        aiohttp.ClientConnectorError,
        aiohttp.ClientHttpProxyError,
        aiohttp.ConnectionTimeoutError,
        aiohttp.InvalidURL,
    )
    return NotSent(text) if isinstance(error, never_connected) else OutcomeUnknown(text)


def _description(error: Exception) -> str:
    """Return the text of an error; aiohttp adds the address of an object in memory to some."""
    if type(error) in {aiohttp.ClientConnectorError, aiohttp.ClientConnectorDNSError}:
        cause = cast("aiohttp.ClientConnectorError", error)
        number = cause.os_error.errno or 0
        reason = os.strerror(number) if number > 0 else cause.os_error.strerror or cause.os_error
        return f"Cannot connect to {cause.host}:{cause.port}: {reason}"
    return str(error) or type(error).__name__


# Sessions for other servers than Kubernetes' own.


def plain_session(tls: SSLContext | None = None) -> aiohttp.ClientSession:
    """Return a session that keeps no connection and no cookie, and reads bodies as they are sent.

    Its requests end when their task does, and know nothing of the environment's proxies.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True, ssl=tls or True),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"accept-encoding": "identity", "user-agent": "manta-operator"},
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        trust_env=False,
    )


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes | None:
    """Return the whole body; None if it is longer than allowed, and then the rest is not read."""
    parts: list[bytes] = []
    left = limit
    async for part in response.content.iter_any():
        left -= len(part)
        if left < 0:
            response.close()
            return None
        parts.append(part)
    return b"".join(parts)
