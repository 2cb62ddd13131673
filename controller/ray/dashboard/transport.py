"""The interface between the client and what carries its requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

from msgspec import Struct
from yarl import URL

from controller.kube.client import Client
from controller.kube.errors import KubeError, NotSent, UnexpectedResponse
from controller.kube.http import aiohttp, plain_session, read_body
from controller.kube.resources import Resource
from controller.ray.dashboard import DashboardError, NoResponse, UnusableResponse


@dataclass(frozen=True, slots=True)
class DashboardRequest:
    """One request.

    Attributes:
        path: path with a leading slash, not quoted.
        headers: header fields with lower-case names; not printed, because they hold the token.
        body: JSON, or None.
        limit: maximum bytes of the response.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    limit: int

    def __str__(self) -> str:
        """Return method and path, for messages."""
        return f"{self.method} {self.path}"


class DashboardResponse(Struct, frozen=True):
    """One complete response, whatever its status.

    Attributes:
        content_type: content type in lower case, without parameters; empty if there is none.
    """

    status: int
    content_type: str
    body: bytes


class DashboardTransport(Protocol):
    """Sends a request once. The caller limits the time by cancelling."""

    async def __call__(self, request: DashboardRequest, /) -> DashboardResponse:
        """Send the request and read the whole response. A redirect is an ordinary response.

        Raises:
            NoResponse: no response came back, or only a part.
            UnusableResponse: the response exceeds `request.limit` bytes.
        """
        ...


# Sends HTTP requests directly to dashboards, as the operator does inside the cluster.
#
# Redirects are not followed. Connections are not kept: heads come and go behind one name, and ten
# thousand idle connections would be ten thousand open files.

_PATH_SAFE = "/:~!$&'()*+,;=@"


class DirectTransports:
    """Transports to all dashboards. Create, use and close them in one running event loop."""

    def __init__(self) -> None:
        self._session = plain_session()
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
                body = await read_body(response, request.limit)
                if body is None:
                    raise UnusableResponse(f"{request}: more than {request.limit} bytes")
                return DashboardResponse(response.status, response.content_type.lower(), body)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoResponse(f"{request}: {error or type(error).__name__}") from error


def _url(base: str, request: DashboardRequest) -> URL:
    url = base + quote(request.path, safe=_PATH_SAFE)
    return URL(f"{url}?{urlencode(request.query)}" if request.query else url, encoded=True)


# Sends requests to dashboards through the API server, as `manta run` does outside the cluster.
#
# They need only a kubeconfig. The token is sent in a header of its own, because the API server does
# not forward `authorization`.

PROXY_TIMEOUT: Final = 10.0
"""Seconds for a request through the API server (KubeRay's limit)."""


class ProxiedTransport:
    """Sends requests to one service or pod through the API server's proxy.

    Args:
        target: `name:port` of the service or pod.
    """

    def __init__(
        self, client: Client, resource: Resource[Any], namespace: str, target: str
    ) -> None:
        self._client = client
        self._target = (resource, namespace, target)

    async def __call__(self, request: DashboardRequest) -> DashboardResponse:
        """Implement `DashboardTransport`."""
        try:
            answer = await self._client.proxy(
                *self._target,
                request.method,
                request.path,
                query=request.query,
                headers=request.headers,
                body=request.body,
                timeout=PROXY_TIMEOUT,
                limit=request.limit,
            )
        except KubeError as error:
            raise _translated(error, request) from error
        content_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        return DashboardResponse(answer.status, content_type, answer.body)


def _translated(error: KubeError, request: DashboardRequest) -> DashboardError:
    """Return a failure on the way to the dashboard, which does not concern the dashboard itself."""
    if isinstance(error, UnexpectedResponse):  # also of a POST, where it is a TransportError, too
        return UnusableResponse(f"{request}: {error}")
    if isinstance(error, NotSent):
        return NoResponse(f"the API server: {error}")
    return NoResponse(f"through the API server: {error}")
