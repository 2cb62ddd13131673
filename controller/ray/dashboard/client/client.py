"""Ray's APIs of jobs, Serve and nodes over any `DashboardTransport`: each call is one request.

The client repeats nothing; the actors do that. Every call has limits of time and of bytes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from controller.ray.dashboard.client import nodes, responses, serve
from controller.ray.dashboard.errors import NoResponse
from controller.ray.dashboard.transport.transport import DashboardRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.dashboard.client.nodes import RayNodes
    from controller.ray.dashboard.client.results import (
        JobDeleted,
        JobInfo,
        JobStopped,
        NoSuchJob,
        RayVersion,
        Submitted,
    )
    from controller.ray.dashboard.client.serve import ProxyHealth, ServeConfigAccepted, ServeState
    from controller.ray.dashboard.client.submission import JobSubmission
    from controller.ray.dashboard.transport.transport import DashboardResponse, DashboardTransport

TIMEOUT: Final = 2.0
"""Seconds for a request that goes straight to the dashboard (KubeRay)."""

MAX_RESPONSE: Final = 1 << 20
"""Maximum bytes of a response."""

MAX_SERVE_STATE: Final = 16 << 20
"""Maximum bytes of Serve's state; every replica takes about 500."""

MAX_NODE_LIST: Final = 16 << 20
"""Maximum bytes of the list of nodes; every node takes about 500."""

_JOBS: Final = "/api/jobs/"
_NODES: Final = "/api/v0/nodes"
_APPLICATIONS: Final = "/api/serve/applications/"
_AUTHORIZATION: Final = "x-ray-authorization"
"""KubeRay's header: the API server's proxy would drop `authorization`."""


class DashboardClient:
    """The dashboard of one head.

    All calls raise `DashboardError`, of which only `RefusedByRay` is a definite response.

    Args:
        send: carries requests to the dashboard.
        token: sent with each request; empty for none.
        timeout: seconds that a call may take.
    """

    def __init__(
        self, send: DashboardTransport, *, token: str = "", timeout: float = TIMEOUT
    ) -> None:
        self._send = send
        self._headers = {"accept": "application/json, text/plain"}
        if token:
            self._headers[_AUTHORIZATION] = f"Bearer {token}"
        self._timeout = timeout

    async def submit(self, submission: JobSubmission) -> Submitted:
        """Submit a job. A submission id that Ray already has counts as submitted."""
        body = msgspec.json.encode(submission.body())
        answer = await self._ask("POST", _JOBS, body=body)
        return responses.submission(answer, submission.submission_id)

    async def job(self, job_id: str) -> JobInfo | NoSuchJob:
        """Return the state of a job."""
        return responses.job(await self._ask("GET", _JOBS + job_id), job_id)

    async def stop(self, job_id: str) -> JobStopped | NoSuchJob:
        """Stop a job. Its status changes later or, if it waits for resources, perhaps never."""
        return responses.stop(await self._ask("POST", f"{_JOBS}{job_id}/stop"), job_id)

    async def delete(self, job_id: str) -> JobDeleted | NoSuchJob:
        """Delete Ray's record of an ended job. Raises `UnusableResponse` while it runs."""
        return responses.deletion(await self._ask("DELETE", _JOBS + job_id), job_id)

    async def serve_state(self) -> ServeState:
        """Return the state of Serve's applications and proxies."""
        query = {"api_type": "declarative"}
        answer = await self._ask("GET", _APPLICATIONS, query=query, limit=MAX_SERVE_STATE)
        return serve.serve_state(answer)

    async def put_serve_config(self, body: bytes) -> ServeConfigAccepted:
        """Make Serve deploy a config; applications that it does not name are deleted."""
        return serve.serve_config_accepted(await self._ask("PUT", _APPLICATIONS, body=body))

    async def proxy_health(self) -> ProxyHealth:
        """Ask a Serve proxy whether it takes requests; for a client of a `ServeProxy`."""
        return serve.proxy_health(await self._ask("GET", "/-/healthz"))

    async def nodes(self) -> RayNodes:
        """Return all nodes of the cluster, including dead ones."""
        query = {"detail": "True", "limit": str(nodes.MAX_NODES)}
        return nodes.nodes(await self._ask("GET", _NODES, query=query, limit=MAX_NODE_LIST))

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
