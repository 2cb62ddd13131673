"""A proxy in place of a gateway: it divides HTTP requests between Services by their weights.

`manta dev` starts it where pods are processes (`--ray`, `--image`): its controller
handles the Gateways of every GatewayClass whose `spec.controllerName` is `manta.dev/gateway`.

    apiVersion: gateway.networking.k8s.io/v1
    kind: GatewayClass
    metadata:
      name: manta
    spec:
      controllerName: manta.dev/gateway

Each Gateway gets a loopback address of its own, in `status.addresses`, where the proxy listens at
the ports of its HTTP listeners. Where a port needs privileges that this process does not have, it
listens at that port plus 8000; the message of the condition `Programmed` names the URL. Pods reach
it at the Service `<gateway>-<class>` of its namespace, at the port of the listener.

A backend is chosen for each request. A request in flight continues when weights change, when a
backend is removed, and for a time when its Gateway is deleted. A Service without a ready endpoint
gives 503, as with other gateways.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import structlog
from aiohttp import web
from yarl import URL

from controller.kube.objects import Gateway, HTTPRoute
from devcluster.gateway import PROTOCOL, Listening, key_of

Endpoint = tuple[str, int]
Endpoints = Callable[[str, int], Sequence[Endpoint]]
Admits = Callable[[Endpoint, Endpoint], bool]


HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that a proxy never forwards: they belong to one connection (RFC 9110, 7.6.1)."""


# Chooses the backend of a request: by host name and path of the routes, then by the weights.


Backend = dict[str, Any]


def backends_for(
    routes: Sequence[HTTPRoute], host: str, path: str
) -> tuple[HTTPRoute, list[Backend]] | None:
    """Return the route that applies and its rule's backends; None if none applies."""
    for route in routes:
        if route.spec.hostnames and not any(_is_host(each, host) for each in route.spec.hostnames):
            continue
        for rule in route.spec.rules:
            matches: list[dict[str, Any]] = rule.get("matches") or [{}]
            if any(_matches(each, path) for each in matches):
                return route, rule.get("backendRefs") or []
    return None


def choose(backends: Sequence[Backend], rng: random.Random) -> Backend | None:
    """Return one of the backends, by their weights; None if no weight is positive."""
    weights = [each.get("weight", 1) for each in backends]
    if not any(weights):
        return None
    [chosen] = rng.choices(backends, weights)
    return chosen


def _is_host(pattern: str, host: str) -> bool:
    name = host.rpartition(":")[0] or host if host.rpartition(":")[2].isdigit() else host
    if pattern.startswith("*."):
        return name.endswith(pattern[1:]) and name != pattern[2:]
    return name == pattern


def _matches(condition: Mapping[str, Any], path: str) -> bool:
    wanted: Mapping[str, Any] = condition.get("path") or {}
    value: str = wanted.get("value", "/")
    match wanted.get("type", "PathPrefix"):
        case "Exact":
            return path == value
        case "PathPrefix":
            prefix = value.rstrip("/")
            return not prefix or path == prefix or path.startswith(f"{prefix}/")
        case _:
            return False


_log = structlog.get_logger(__name__)

NETWORK: Final = "127.76.0"
"""The first 24 bits of the Gateways' addresses."""

UNPRIVILEGED: Final = 8000
"""Added to a port that needs privileges."""

DRAINED: Final = 60.0
"""Seconds that requests in flight have when their Gateway is deleted."""

_CONNECT: Final = 5.0
_ADDED_ELSEWHERE = ("user-agent", "accept", "accept-encoding", "content-type")
_CHUNK: Final = 64 * 1024


def passing_session(*, limit: int) -> aiohttp.ClientSession:
    """Return a session that passes on requests and answers as they are."""
    return aiohttp.ClientSession(
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT),
        connector=aiohttp.TCPConnector(force_close=True, limit=limit),
        skip_auto_headers=_ADDED_ELSEWHERE,
    )


@dataclass(slots=True)
class _Listener:
    """A Gateway that is listened for.

    Attributes:
        ports: each port of a listener, and the one that is bound for it.
    """

    routes: Sequence[HTTPRoute] = ()
    address: str = ""
    ports: tuple[tuple[int, int], ...] = ()
    runner: web.ServerRunner | None = None


class WeightedProxy:
    """Implements `Listeners` with sockets.

    Args:
        endpoints: addresses and ports of the ready pods behind a port of a Service, by its key.
        admits: whether a request from a peer to an address here is passed on; None passes on all.
    """

    def __init__(
        self, endpoints: Endpoints, rng: random.Random, admits: Admits | None = None
    ) -> None:
        self._endpoints = endpoints
        self._rng = rng
        self._admits = admits
        self._listeners: dict[str, _Listener] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None

    async def apply(
        self, gateways: Mapping[str, tuple[Gateway, Sequence[HTTPRoute]]]
    ) -> dict[str, Listening]:
        """Listen for exactly these Gateways."""
        for key in self._listeners.keys() - gateways.keys():
            self._drain(self._listeners.pop(key))
        found: dict[str, Listening] = {}
        for key, (gateway, routes) in gateways.items():
            if key not in self._listeners:
                listener = _Listener()
                try:
                    await self._listen(listener, _ports(gateway))
                except OSError as error:
                    found[key] = Listening(problem=f"cannot listen: {error}")
                    continue
                self._listeners[key] = listener
            listener = self._listeners[key]
            listener.routes = routes
            urls = [f"http://{listener.address}:{bound}" for _, bound in listener.ports]
            found[key] = Listening(
                (listener.address,), listener.ports, remark=f"at {', '.join(urls)}"
            )
        return found

    async def aclose(self) -> None:
        """Close all listeners and connections."""
        for task in self._closing:
            task.cancel()
        for listener in self._listeners.values():
            if listener.runner is not None:
                await listener.runner.cleanup()
        self._listeners.clear()
        if self._session is not None:
            await self._session.close()

    def _drain(self, listener: _Listener) -> None:
        if listener.runner is not None:
            task = asyncio.get_running_loop().create_task(listener.runner.cleanup())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _listen(self, listener: _Listener, ports: Sequence[int]) -> None:
        """Listen at the first address where all ports are free.

        Raises:
            OSError: no address can be listened on.
        """

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            return await self._serve(listener, request)

        for last in range(1, 255):
            address = f"{NETWORK}.{last}"
            runner = web.ServerRunner(web.Server(handle), shutdown_timeout=DRAINED)
            await runner.setup()
            try:
                bound = [(port, await _bind(runner, address, port)) for port in ports]
            except OSError as error:
                await runner.cleanup()
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            listener.address, listener.ports, listener.runner = address, tuple(bound), runner
            return
        raise OSError(errno.EADDRINUSE, f"all addresses of {NETWORK}.0/24 are in use")

    async def _serve(self, listener: _Listener, request: web.BaseRequest) -> web.StreamResponse:
        if not self._is_admitted(request):
            return web.Response(status=403, text="this port serves the user of the cluster only\n")
        found = backends_for(listener.routes, request.host, request.path)
        if found is None:
            return web.Response(status=404, text="no route matches\n")
        route, backends = found
        chosen = choose(backends, self._rng)
        if chosen is None:
            return web.Response(status=500, text="no backend has a weight\n")
        key = key_of(chosen, route.metadata.namespace)
        behind = list(self._endpoints(key, chosen.get("port") or 0))
        self._rng.shuffle(behind)
        for endpoint in behind:
            try:
                response = await self._send(request, endpoint)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
                continue  # nothing was sent: another pod may have it
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                return web.Response(status=502, text=f"{key}: {error}\n")
            return await _pass_on(request, response)
        which = f"none of {len(behind)} ready endpoints" if behind else "no ready endpoint"
        return web.Response(status=503, text=f"{which} of Service {key} takes a connection\n")

    def _is_admitted(self, request: web.BaseRequest) -> bool:
        if self._admits is None or request.transport is None:
            return True
        peer = request.transport.get_extra_info("peername")
        here = request.transport.get_extra_info("sockname")
        return peer is not None and self._admits(peer, here)

    async def _send(self, request: web.BaseRequest, endpoint: Endpoint) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = passing_session(limit=0)
        host, port = endpoint
        return await self._session.request(
            request.method,
            URL(f"http://{host}:{port}{request.raw_path}", encoded=True),
            headers=[(name, value) for name, value in request.headers.items() if _is_kept(name)],
            data=request.content if request.body_exists else None,
            allow_redirects=False,
        )


async def _bind(runner: web.ServerRunner, address: str, port: int) -> int:
    """Listen at a port, or at another one if that needs privileges; return the port."""
    try:
        await web.TCPSite(runner, address, port).start()
    except PermissionError:
        port += UNPRIVILEGED
        await web.TCPSite(runner, address, port).start()
    return port


async def _pass_on(
    request: web.BaseRequest, response: aiohttp.ClientResponse
) -> web.StreamResponse:
    answer = web.StreamResponse(status=response.status, reason=response.reason)
    for name, value in response.headers.items():
        if _is_kept(name):
            answer.headers.add(name, value)
    try:
        await answer.prepare(request)
        async for chunk in response.content.iter_chunked(_CHUNK):
            await answer.write(chunk)
        await answer.write_eof()
    except aiohttp.ClientError:
        _log.debug("backend broke off", url=str(response.url))
        if request.transport is not None:
            request.transport.abort()  # the client must not take a part for the whole
    finally:
        response.close()
    return answer


def _is_kept(name: str) -> bool:
    return name.lower() not in HOP_BY_HOP


def _ports(gateway: Gateway) -> list[int]:
    listeners = gateway.spec.listeners  # several may share a port, for other host names
    ours = (each["port"] for each in listeners if each.get("protocol") == PROTOCOL)
    return list(dict.fromkeys(ours))
