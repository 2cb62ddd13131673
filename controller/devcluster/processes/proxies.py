"""The API server's proxies: forward requests to pods, and to ready pods behind services.

As upstream, response bodies are streamed, the client's credentials for the API server are not
forwarded, and redirects are not followed. Upgrades
(web sockets) are refused.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import quote

import aiohttp
from yarl import URL

from controller.devcluster.apiserver.messages import (
    ApiRequest,
    ApiResponse,
    ResourcePath,
    proxy_target,
)
from controller.devcluster.apiserver.status import ApiError, unavailable
from controller.devcluster.gateway_proxy import HOP_BY_HOP, passing_session
from controller.devcluster.processes.network import Backend, ServiceNetwork

_MOST = 256
"""Maximum concurrent requests; further ones wait."""
_FIRST_BYTE = 60.0  # seconds
_NOT_PASSED_ON = HOP_BY_HOP | {"authorization", "content-length", "host"}


class Proxies:
    """The hooks `pod_proxy` and `service_proxy` of the API server."""

    def __init__(self, network: ServiceNetwork, rng: random.Random) -> None:
        self._network = network
        self._rng = rng
        self._session: aiohttp.ClientSession | None = None

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def service_proxy(self, request: ApiRequest, where: ResourcePath) -> ApiResponse:
        """Forward a request to a ready pod behind a service."""
        scheme, name, port = proxy_target(where.name)
        service = self._network.service(where.namespace, name)
        if service is None:
            raise unavailable(f'no endpoints available for service "{name}"')
        ports = {str(one.port): one.name for one in service.spec.ports}
        if port.isdigit() and port not in ports:
            raise unavailable(f'no service port {port} found for service "{name}"')
        behind = self._network.backends(service, ports.get(port, port))
        if not behind:
            raise unavailable(f'no endpoints available for service "{name}"')
        return await self._pass_on(request, where, scheme, self._rng.choice(behind))

    async def pod_proxy(self, request: ApiRequest, where: ResourcePath) -> ApiResponse:
        """Forward a request to a pod."""
        scheme, name, port = proxy_target(where.name)
        pod = self._network.pod(where.namespace, name)
        if pod is None or not pod.status.pod_ip:
            raise unavailable(f'pod "{name}" has no address yet')
        first = next((one.container_port for c in pod.spec.containers for one in c.ports), 80)
        number = int(port) if port.isdigit() else first
        return await self._pass_on(request, where, scheme, Backend(pod.status.pod_ip, number))

    async def _pass_on(
        self, request: ApiRequest, where: ResourcePath, scheme: str, to: Backend
    ) -> ApiResponse:
        if "upgrade" in request.headers.get("connection", "").lower():
            raise ApiError(501, "NotImplemented", "upgraded connections are not passed on here")
        try:
            response = await self._send(request, where, scheme, to)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            raise unavailable(f"error trying to reach service: {why}") from error
        headers = _passed_on({name.lower(): each for name, each in response.headers.items()})
        if (length := response.headers.get("content-length")) is not None:
            headers["content-length"] = length
        return ApiResponse(response.status, _body(response), headers)

    async def _send(
        self, request: ApiRequest, where: ResourcePath, scheme: str, to: Backend
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = passing_session(limit=_MOST)
        path = quote(where.rest or "/", safe="/:@!$&'()*+,;=~")
        url = URL(f"{scheme}://{to.ip}:{to.port}{path}", encoded=True).with_query(
            dict(request.query)
        )
        async with asyncio.timeout(_FIRST_BYTE):
            return await self._session.request(
                request.method,
                url,
                headers=_passed_on(request.headers),
                data=request.body,
                allow_redirects=False,
                ssl=False,
            )


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in _NOT_PASSED_ON}


async def _body(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    finally:
        response.close()
