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
        server_name: name expected in the server's certificate, empty for the host of the URL.
        context: context of the kubeconfig that names it; empty if none does.
    """

    url: str
    proxy: str = ""
    server_name: str = ""
    context: str = ""

    @property
    def host(self) -> str:
        """`host:port`, as metrics and the log name it: without a password."""
        return self.url.partition("://")[2].partition("/")[0].rpartition("@")[2]


class Credentials(Protocol):
    """Authentication to one API server, kept up to date."""

    @property
    def endpoint(self) -> ServerEndpoint:
        """The server; it never changes."""
        ...

    @property
    def namespace(self) -> str:
        """The default namespace of commands; empty if the credentials name none."""
        ...

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for new connections; a new object after a change of certificates.

        None for plain HTTP.
        """
        ...

    async def authorization(self) -> str:
        """Return the value of the `Authorization` header, empty for none."""
        ...

    async def refresh(self) -> None:
        """Replace credentials that the server rejected (401), if there are others."""
        ...

    async def aclose(self) -> None:
        """Stop refreshing."""
        ...


class StaticCredentials:
    """Credentials that never change, such as those of the embedded server."""

    namespace = ""

    def __init__(
        self, url: str, *, ssl_context: ssl.SSLContext | None = None, authorization: str = ""
    ) -> None:
        self.endpoint = ServerEndpoint(url.rstrip("/"))
        self._ssl_context = ssl_context
        self._authorization = authorization

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the given context."""
        return self._ssl_context

    async def authorization(self) -> str:
        """Return the given header."""
        return self._authorization

    async def refresh(self) -> None:
        """Do nothing: there are no other credentials."""

    async def aclose(self) -> None:
        """Do nothing."""
