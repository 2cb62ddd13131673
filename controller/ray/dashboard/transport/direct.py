"""Sends HTTP requests directly to dashboards, as the operator does inside the cluster.

Redirects are not followed. Connections are not kept: heads come and go behind one name, and ten
thousand idle connections would be ten thousand open files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from controller.ray.dashboard.errors import NoResponse, TooLarge, Unreachable
from controller.ray.dashboard.transport.transport import DashboardResponse

if TYPE_CHECKING:
    from controller.ray.dashboard.transport.transport import DashboardRequest, DashboardTransport

_PATH_SAFE = "/:~!$&'()*+,;=@"


class DirectTransports:
    """Transports to all dashboards. Create, use and close them in one running event loop."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"accept-encoding": "identity", "user-agent": "manta-operator"},
            timeout=aiohttp.ClientTimeout(total=None),  # the client's limit covers everything
            auto_decompress=False,
            trust_env=False,
        )
        # aiohttp would silently repeat a request whose connection broke. The actors decide about
        # that, and the first response to a command is the one that says what happened.
        self._session._retry_connection = False  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def to(self, host: str, port: int) -> DashboardTransport:
        """Return the transport to one dashboard."""
        base = f"http://{host}:{port}"

        async def send(request: DashboardRequest) -> DashboardResponse:
            return await self._exchange(base, request)

        return send

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def _exchange(self, base: str, request: DashboardRequest) -> DashboardResponse:
        try:
            async with self._session.request(
                request.method,
                _url(base, request),
                data=request.body,
                headers=request.headers,
                allow_redirects=False,
            ) as response:
                body = await _read(response, request)
                return DashboardResponse(response.status, response.content_type.lower(), body)
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise Unreachable(f"{request}: {error or type(error).__name__}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoResponse(f"{request}: {error or type(error).__name__}") from error


async def _read(response: aiohttp.ClientResponse, request: DashboardRequest) -> bytes:
    """Return the whole body; raise `TooLarge` if it is longer than allowed."""
    parts: list[bytes] = []
    left = request.limit
    async for part in response.content.iter_any():
        left -= len(part)
        if left < 0:
            response.close()
            raise TooLarge(f"{request}: more than {request.limit} bytes")
        parts.append(part)
    return b"".join(parts)


def _url(base: str, request: DashboardRequest) -> URL:
    url = base + quote(request.path, safe=_PATH_SAFE)
    return URL(f"{url}?{urlencode(request.query)}" if request.query else url, encoded=True)
