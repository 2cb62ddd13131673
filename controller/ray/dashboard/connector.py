"""Creates the client of a head, with the right transport and the token."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

from controller.kube.errors import KubeError, NotFound
from controller.kube.resources import PODS, SECRETS, SERVICES
from controller.ray.dashboard.client.client import TIMEOUT, DashboardClient
from controller.ray.dashboard.errors import Unreachable
from controller.ray.dashboard.head import ServeProxy
from controller.ray.dashboard.transport.direct import DirectTransports
from controller.ray.dashboard.transport.proxied import PROXY_TIMEOUT, ProxiedTransport

if TYPE_CHECKING:
    from controller.kube.client import Client
    from controller.ray.dashboard.head import Head

TOKEN_KEY: Final = "auth_token"  # noqa: S105  a key, not a token
"""Key of the Secret under which Ray and its clients expect the token."""


class Connector:
    """Creates clients for head services or pods, directly or through the API server.

    Create it in the running event loop. The token is read from its Secret for each client, and only
    that client holds it.

    Args:
        kube: access to the API server.
        proxied: whether requests go through the API server.
        cluster_domain: DNS domain of the Kubernetes cluster.
    """

    def __init__(
        self, kube: Client, *, proxied: bool, cluster_domain: str = "cluster.local"
    ) -> None:
        self._kube = kube
        self._domain = cluster_domain
        self._connections = None if proxied else DirectTransports()

    async def __call__(self, head: Head) -> DashboardClient:
        """Return the client of a head.

        Raises:
            Unreachable: its token cannot be read.
        """
        token = await self._token(head) if head.token_secret else ""
        if self._connections is None:
            return DashboardClient(self._proxied(head), token=token, timeout=PROXY_TIMEOUT)
        send = self._connections.to(self._host(head), head.port)
        return DashboardClient(send, token=token, timeout=TIMEOUT)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._connections is not None:
            await self._connections.aclose()

    def _proxied(self, head: Head) -> ProxiedTransport:
        if isinstance(head, ServeProxy):
            return ProxiedTransport(self._kube, PODS, head.namespace, f"{head.pod}:{head.port}")
        target = f"{head.service}:{head.port}"
        return ProxiedTransport(self._kube, SERVICES, head.namespace, target)

    def _host(self, head: Head) -> str:
        if isinstance(head, ServeProxy):
            return f"[{head.address}]" if ":" in head.address else head.address
        return f"{head.service}.{head.namespace}.svc.{self._domain}"

    async def _token(self, head: Head) -> str:
        name = f"Secret {head.namespace}/{head.token_secret}"
        try:
            secret = await self._kube.get_raw(SECRETS, head.namespace, head.token_secret)
        except NotFound:
            raise Unreachable(f"{name} with the token of Ray is missing") from None
        except KubeError as error:
            raise Unreachable(f"{name} with the token of Ray cannot be read: {error}") from error
        token = _decoded(secret)
        if not token:
            raise Unreachable(f"{name} has no token under the key {TOKEN_KEY}")
        return token


def _decoded(secret: dict[str, Any]) -> str:
    """Return the token in a Secret; empty if there is none."""
    data: dict[str, Any] = secret.get("data") or {}
    encoded = data.get(TOKEN_KEY)
    if not isinstance(encoded, str):
        return ""
    try:
        return base64.b64decode(encoded, validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        return ""
