"""Ray's nodes as its state API lists them: values, and the meaning of the response."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from controller.kube.client import Client
from controller.kube.errors import KubeError, NotFound
from controller.kube.objects import secret_text
from controller.kube.resources import PODS, SECRETS, SERVICES
from controller.ray.api.raycluster import TOKEN_KEY
from controller.ray.dashboard import (
    Head,
    JobSubmission,
    NoResponse,
    ServeProxy,
    UnusableResponse,
    responses,
    serve,
)
from controller.ray.dashboard.responses import (
    JobInfo,
    NoSuchJob,
    RayVersion,
    StateListing,
    bounded,
    decoded,
    moment,
)
from controller.ray.dashboard.serve import (
    ProxyHealth,
    RayActivity,
    ServeState,
)
from controller.ray.dashboard.transport import (
    PROXY_TIMEOUT,
    DashboardRequest,
    DashboardResponse,
    DashboardTransport,
    DirectTransports,
    ProxiedTransport,
)

MAX_NODES: Final = 10_000
"""Maximum nodes that Ray lists; it refuses a larger limit."""

_ALIVE: Final = "ALIVE"
_STATES: Final = frozenset({_ALIVE, "DEAD"})


class RayNode(msgspec.Struct, frozen=True):
    """One node in the view of the GCS. Ray reports neither draining nor load of a node.

    Attributes:
        id: in hexadecimal digits. A container that restarts becomes another node.
        address: its IP address, which is that of its pod.
        alive: whether it belongs to the cluster. A drained node without work is dead at once,
            although its container continues to run.
        started: time when it joined; None in an old Ray.
    """

    id: str
    address: str
    alive: bool
    started: datetime | None = None


class RayNodes(msgspec.Struct, frozen=True):
    """The nodes of a cluster.

    Attributes:
        by_address: the newest node at each IP address.
    """

    by_address: Mapping[str, RayNode] = msgspec.field(default_factory=dict[str, RayNode])

    @classmethod
    def of(cls, nodes: Iterable[RayNode]) -> RayNodes:
        """Return the values for nodes in any order, including dead ones."""
        return cls({node.address: node for node in sorted(nodes, key=_age) if node.address})

    def at(self, address: str, since: datetime) -> RayNode | None:
        """Return the newest node at a pod's IP address, unless it is older than the pod.

        The address may have belonged to an earlier pod, whose node Ray may still list as alive.
        """
        node = self.by_address.get(address)
        if node is None or (node.started is not None and node.started < since):
            return None
        return node


class _Node(msgspec.Struct):
    node_id: str
    state: str
    node_ip: str | None = None
    start_time_ms: int | None = None


_nodes = msgspec.json.Decoder(StateListing[_Node])


def nodes(answer: DashboardResponse) -> RayNodes:
    """Parse the response to `GET /api/v0/nodes`.

    Raises:
        UnusableResponse: it is not a list of nodes, or an incomplete one.
    """
    found = decoded(answer, _nodes)
    if not found.is_complete:
        total = found.data.result.total
        raise UnusableResponse(f"Ray lists {len(found.items)} of {total} nodes")
    return RayNodes.of(map(_node, found.items))


def _node(found: _Node) -> RayNode:
    if found.state not in _STATES:
        raise UnusableResponse(bounded(f"node {found.node_id} is in no known state: {found.state}"))
    return RayNode(
        id=bounded(found.node_id),
        address=bounded(found.node_ip or ""),
        alive=found.state == _ALIVE,
        started=moment(found.start_time_ms),
    )


def _age(node: RayNode) -> tuple[float, bool, str]:
    """Return a sort key that puts the newest last, and of two equally old ones the one alive."""
    return (node.started.timestamp() if node.started else 0.0, node.alive, node.id)


# Ray's APIs of jobs, Serve and nodes over any `DashboardTransport`: each call is one request.
#
# The client repeats nothing; the actors do that. Every call has limits of time and of bytes.

TIMEOUT: Final = 2.0
"""Seconds for a request that goes straight to the dashboard (KubeRay)."""

MAX_RESPONSE: Final = 1 << 20
"""Maximum bytes of a response."""

MAX_SERVE_STATE: Final = 16 << 20
"""Maximum bytes of Serve's state; every replica takes about 500."""

MAX_JOB_LIST: Final = 16 << 20
"""Maximum bytes of the list of jobs and of that of actors; Ray keeps the records of ended ones."""

MAX_NODE_LIST: Final = 16 << 20
"""Maximum bytes of the list of nodes; every node takes about 500."""

_JOBS: Final = "/api/jobs/"
_NODES: Final = "/api/v0/nodes"
_ACTORS: Final = "/api/v0/actors"
_SERVE_CONTROLLERS: Final = {
    "filter_keys": "class_name",
    "filter_predicates": "=",
    "filter_values": "ServeController",
}
_APPLICATIONS: Final = "/api/serve/applications/"
_AUTHORIZATION: Final = "x-ray-authorization"
"""KubeRay's header: the API server's proxy would drop `authorization`."""


class DashboardClient:
    """The dashboard of one head.

    All calls raise `DashboardError`, of which only `RefusedByRay` is a definite response.

    Args:
        token: sent with each request; empty for none.
    """

    def __init__(
        self, send: DashboardTransport, *, token: str = "", timeout: float = TIMEOUT
    ) -> None:
        self._send = send
        self._headers = {"accept": "application/json, text/plain"}
        if token:
            self._headers[_AUTHORIZATION] = f"Bearer {token}"
        self._timeout = timeout

    async def submit(self, submission: JobSubmission) -> None:
        """Submit a job. A submission id that Ray already has counts as submitted."""
        body = msgspec.json.encode(submission.body())
        answer = await self._ask("POST", _JOBS, body=body)
        responses.submission(answer, submission.submission_id)

    async def job(self, job_id: str) -> JobInfo | NoSuchJob:
        """Return the state of a job."""
        return responses.job(await self._ask("GET", _JOBS + job_id), job_id)

    async def stop(self, job_id: str) -> NoSuchJob | None:
        """Stop a job. Its status changes later or, if it waits for resources, perhaps never."""
        return responses.stop(await self._ask("POST", f"{_JOBS}{job_id}/stop"), job_id)

    async def delete(self, job_id: str) -> None:
        """Delete Ray's record of an ended job. Raises `UnusableResponse` while it runs."""
        responses.deletion(await self._ask("DELETE", _JOBS + job_id), job_id)

    async def serve_state(self) -> ServeState:
        """Return the state of Serve's applications and proxies."""
        query = {"api_type": "declarative"}
        answer = await self._ask("GET", _APPLICATIONS, query=query, limit=MAX_SERVE_STATE)
        return serve.serve_state(answer)

    async def put_serve_config(self, body: bytes) -> None:
        """Make Serve deploy a config; applications that it does not name are deleted."""
        serve.serve_config_accepted(await self._ask("PUT", _APPLICATIONS, body=body))

    async def proxy_health(self) -> ProxyHealth:
        """Ask a Serve proxy whether it takes requests; for a client of a `ServeProxy`."""
        return serve.proxy_health(await self._ask("GET", "/-/healthz"))

    async def nodes(self) -> RayNodes:
        """Return all nodes of the cluster, including dead ones."""
        query = {"detail": "True", "limit": str(MAX_NODES)}
        return nodes(await self._ask("GET", _NODES, query=query, limit=MAX_NODE_LIST))

    async def activity(self) -> RayActivity:
        """Return what uses the cluster: drivers, jobs that have not ended, Serve applications."""
        actors = await self._ask("GET", _ACTORS, query=_SERVE_CONTROLLERS, limit=MAX_JOB_LIST)
        state = await self.serve_state() if serve.has_serve_controller(actors) else None
        jobs = await self._ask("GET", _JOBS, limit=MAX_JOB_LIST)
        components = await self._ask("GET", "/api/component_activities")
        return serve.activity(components, jobs, state)

    async def version(self) -> RayVersion:
        """Return the version of Ray."""
        return responses.version(await self._ask("GET", "/api/version"))

    async def health(self) -> RayVersion:
        """Return the version of Ray that answers, after its GCS has answered too."""
        responses.gcs_health(await self._ask("GET", "/api/gcs_healthz"))
        return await self.version()

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        limit: int = MAX_RESPONSE,
    ) -> DashboardResponse:
        headers = self._headers
        if body is not None:
            headers = {**headers, "content-type": "application/json"}
        request = DashboardRequest(method, path, query or {}, headers, body, limit)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._send(request)
        except TimeoutError:
            raise NoResponse(f"{request}: no complete answer in {self._timeout:g} s") from None


# Creates the client of a head, with the right transport and the token.


class Connector:
    """Creates clients for head services or pods, directly or through the API server.

    Create it in the running event loop. The token is read from its Secret for each client, and only
    that client holds it.

    Args:
        proxied: whether requests go through the API server.
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
            NoResponse: its token cannot be read.
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
            raise NoResponse(f"{name} with the token of Ray is missing") from None
        except KubeError as error:
            raise NoResponse(f"{name} with the token of Ray cannot be read: {error}") from error
        token = secret_text(secret, TOKEN_KEY)
        if not token:
            raise NoResponse(f"{name} has no token under the key {TOKEN_KEY}")
        return token
