"""Reads and writes one Lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.kube.client import Client
from controller.kube.errors import NotFound
from controller.runtime.leaderelection.lease import LEASES, Lease

if TYPE_CHECKING:
    from controller.kube.transport import Transport
    from controller.runtime.leaderelection.timing import ElectionTiming
    from informers import Clock


def election_client(
    transport: Transport, timing: ElectionTiming, *, user_agent: str, clock: Clock
) -> Client:
    """Return the client of an election, which shares nothing with others (LE-13).

    Two requests fit into the time for a renewal. No pause that the server asks for is longer than
    the time between two renewals, since the lease would be lost meanwhile.
    """
    return Client(
        transport,
        user_agent=user_agent,
        clock=clock,
        timeout=max(1.0, timing.renew_seconds / 2),
        longest_pause=timing.retry_seconds,
    )


class LeaseLock:
    """The Lease `namespace/name`.

    Args:
        client: client of the API server; nothing else may throttle its requests (LE-13).
        namespace: namespace of the Lease.
        name: name of the Lease.

    All methods raise `KubeError`.
    """

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self.namespace = namespace
        self.name = name

    def __str__(self) -> str:
        """Return `namespace/name`, for messages."""
        return f"{self.namespace}/{self.name}"

    async def read(self) -> Lease | None:
        """Return the Lease as it is, None if there is none."""
        try:
            return Lease(await self._client.get_raw(LEASES, self.namespace, self.name))
        except NotFound:
            return None

    async def create(self, body: dict[str, Any]) -> Lease:
        """Create it. Raises `AlreadyExists` if another candidate was faster."""
        made = await self._client.create(LEASES, self.namespace, body)
        return _at(body, made.metadata.resource_version)

    async def replace(self, body: dict[str, Any]) -> Lease:
        """Write it. Raises `Conflict` if it has changed since it was read."""
        made = await self._client.replace(LEASES, self.namespace, self.name, body)
        return _at(body, made.metadata.resource_version)


def _at(body: dict[str, Any], revision: str) -> Lease:
    """Return the object as written, with the revision that the next write needs."""
    return Lease({**body, "metadata": {**body["metadata"], "resourceVersion": revision}})
