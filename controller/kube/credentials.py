"""Credentials: the address of an API server and the means to authenticate to it.

Credentials change while connections live, so a transport asks for the header and the TLS context
before each request. `incluster.py` and `kubeconfig.py` implement them; `load.py` chooses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True)
class ServerEndpoint:
    """Address of an API server.

    Attributes:
        url: scheme, host, port and, behind some proxies, a path; no slash at the end.
        proxy: URL of an HTTP proxy, empty for none. The environment is never consulted.
        server_name: name expected in the server's certificate, empty for that of the URL.
    """

    url: str
    proxy: str = ""
    server_name: str = ""

    @property
    def host(self) -> str:
        """`host:port`, as metrics label it."""
        return self.url.partition("://")[2].partition("/")[0]


class Credentials(Protocol):
    """How to be let in, kept fresh."""

    @property
    def endpoint(self) -> ServerEndpoint:
        """The server. Never changes."""
        ...

    def ssl_context(self) -> ssl.SSLContext | None:
        """For new connections; another object whenever certificates have changed.

        None for plain HTTP.
        """
        ...

    async def authorization(self) -> str:
        """Value of the `Authorization` header, empty for none."""
        ...

    async def refresh(self) -> None:
        """The server has refused the present credentials (401): get others, if there are any."""
        ...

    async def aclose(self) -> None:
        """End whatever keeps them fresh."""
        ...


class StaticCredentials:
    """Credentials that never change: plain HTTP to the embedded server, and tests."""

    def __init__(
        self, url: str, *, ssl_context: ssl.SSLContext | None = None, authorization: str = ""
    ) -> None:
        self._endpoint = ServerEndpoint(url.rstrip("/"))
        self._ssl_context = ssl_context
        self._authorization = authorization

    @property
    def endpoint(self) -> ServerEndpoint:
        """The server."""
        return self._endpoint

    def ssl_context(self) -> ssl.SSLContext | None:
        """As given."""
        return self._ssl_context

    async def authorization(self) -> str:
        """As given."""
        return self._authorization

    async def refresh(self) -> None:
        """There are no others."""

    async def aclose(self) -> None:
        """Nothing to end."""
