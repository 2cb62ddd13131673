"""What a transport needs to know of an API server: where it is and how to be let in.

Credentials change while connections live, so the header and the TLS context are asked for before
each request. `incluster.py` and `kubeconfig.py` make them; `load_credentials` chooses.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Endpoint:
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
    def endpoint(self) -> Endpoint:
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
        self._endpoint = Endpoint(url.rstrip("/"))
        self._ssl_context = ssl_context
        self._authorization = authorization

    @property
    def endpoint(self) -> Endpoint:
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


def _utc_now() -> datetime:
    return datetime.now(UTC)


async def load_credentials(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    environment: Mapping[str, str] = os.environ,
    wall: Callable[[], datetime] = _utc_now,
) -> Credentials:
    """Find credentials, in the order that operators usually follow.

    What was asked for by name, else `KUBECONFIG`, else the pod's service account, else
    `~/.kube/config`.

    Args:
        kubeconfig: path or paths of kubeconfig files.
        context: of the kubeconfig; asking for one means that a kubeconfig is wanted.
        environment: of the process, read now and not at import.
        wall: UTC time, which the expiry of tokens is compared with.

    Raises:
        ConfigurationError: none are usable; the message says why and what to do.
    """
    # Imported here because both modules import this one.
    from controller.kube.incluster import InClusterCredentials  # noqa: PLC0415
    from controller.kube.kubeconfig import load_kubeconfig  # noqa: PLC0415

    wanted = kubeconfig or context or environment.get("KUBECONFIG")
    if not wanted and environment.get("KUBERNETES_SERVICE_HOST"):
        return InClusterCredentials(environment)
    return await load_kubeconfig(
        kubeconfig,
        context,
        environment=environment,
        clock=asyncio.get_running_loop(),
        wall=wall,
    )
