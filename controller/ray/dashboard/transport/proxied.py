"""Sends requests to dashboards through the API server, as `manta run` does outside the cluster.

They need only a kubeconfig. The token is sent in a header of its own, because the API server does
not forward `authorization`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.kube.errors import KubeError, NotSent, UnexpectedResponse
from controller.ray.dashboard.errors import NoResponse, TooLarge, Unreachable
from controller.ray.dashboard.transport.transport import DashboardResponse

if TYPE_CHECKING:
    from controller.kube.client import Client
    from controller.kube.resources import Resource
    from controller.ray.dashboard.transport.transport import DashboardRequest

PROXY_TIMEOUT: Final = 10.0
"""Seconds for a request through the API server (KubeRay's limit)."""


class ProxiedTransport:
    """Sends requests to one service or pod through the API server's proxy.

    Args:
        client: access to the API server.
        resource: services or pods.
        namespace: namespace of the service or pod.
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


def _translated(error: KubeError, request: DashboardRequest) -> NoResponse | TooLarge:
    """Return a failure on the way to the dashboard, which does not concern the dashboard itself."""
    if isinstance(error, UnexpectedResponse):  # also of a POST, where it is a TransportError, too
        return TooLarge(f"{request}: {error}")
    if isinstance(error, NotSent):
        return Unreachable(f"the API server: {error}")
    return NoResponse(f"through the API server: {error}")
