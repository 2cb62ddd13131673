"""Reads and writes one Lease."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from prometheus_client import Counter, Gauge

from controller.apimachinery.conditions import rfc3339_micro
from controller.apimachinery.custom_object import mapping
from controller.kube.client import Client
from controller.kube.errors import NotFound
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from prometheus_client import CollectorRegistry

    from controller.kube.transport import Transport
    from informers import Clock


# The durations of an election.

_JITTER = 1.2


class ElectionTiming(msgspec.Struct, frozen=True, kw_only=True):
    """The durations of an election, in seconds.

    Raises:
        ValueError: they contradict each other; the message names the setting.
    """

    lease_seconds: int = 15
    """Time without change after which a candidate takes the lease."""

    renew_seconds: float = 10.0
    """Time after the last renewal at which a leader has lost and stops writing."""

    retry_seconds: float = 2.0
    """Time between two renewals; a candidate reads the lease twice in that time."""

    def __post_init__(self) -> None:
        """Check the relations between the durations."""
        if self.lease_seconds < 1:
            raise ValueError("lease_seconds must be at least 1")
        if self.renew_seconds < 1:
            raise ValueError("renew_seconds must be at least 1")
        if self.retry_seconds <= 0:
            raise ValueError("retry_seconds must be more than 0")
        if self.lease_seconds <= self.renew_seconds:
            raise ValueError("lease_seconds must be more than renew_seconds")
        if self.renew_seconds <= _JITTER * self.retry_seconds:
            raise ValueError(f"renew_seconds must be more than {_JITTER} times retry_seconds")


# Metrics of leader election, with the names that client-go and controller-runtime use.


class ElectionMetrics:
    """Metrics of the election: leadership, and renewals that needed a read."""

    def __init__(self, registry: CollectorRegistry, name: str) -> None:
        self._leads = Gauge(
            "leader_election_master_status",
            "Whether this process holds the lease: 1, or 0",
            ("name",),
            registry=registry,
        ).labels(name)
        self._slow = Counter(
            "leader_election_slowpath",
            "Renewals that had to read the lease first, because another client had written it",
            ("name",),
            registry=registry,
        ).labels(name)

    def leads(self, *, leads: bool) -> None:
        """Record whether this process leads."""
        self._leads.set(leads)

    def slow_path(self) -> None:
        """Count a renewal that had to read the lease first."""
        self._slow.inc()


# The record in a Lease: who holds it, since when, for how long.
#
# Everything here is a pure function of plain data. Records of other programs may lack fields or
# hold invalid ones; those count as absent.

LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", KubeObject)

RELEASED_SECONDS: Final = 1
"""Duration of a lease without a holder."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as it was read.

    Attributes:
        body: the whole object, which others may have added to.
    """

    body: dict[str, Any]

    @property
    def record(self) -> Mapping[str, Any]:
        """The fields whose change restarts the observation."""
        return mapping(self.body.get("spec"))

    @property
    def holder(self) -> str:
        """The identity of the holder, empty if there is none."""
        holder = self.record.get("holderIdentity")
        return holder if isinstance(holder, str) else ""

    def duration(self, usual: int) -> int:
        """Return the seconds that the holder requests; `usual` if it gives none."""
        seconds = self.record.get("leaseDurationSeconds")
        return seconds if isinstance(seconds, int) and seconds > 0 else usual

    @property
    def transitions(self) -> int:
        """The number of times that the lease changed hands."""
        count = self.record.get("leaseTransitions")
        return count if isinstance(count, int) else 0

    def held_by(self, identity: str, seconds: int, now: datetime) -> dict[str, Any]:
        """Return the object to write for taking the lease, or for renewing it (LE-7)."""
        renewed = self.holder == identity
        acquired = self.record.get("acquireTime") if renewed else None
        return self._with_record(
            holderIdentity=identity,
            leaseDurationSeconds=seconds,
            acquireTime=acquired or rfc3339_micro(now),
            renewTime=rfc3339_micro(now),
            leaseTransitions=self.transitions + (not renewed),
        )

    def released(self, now: datetime) -> dict[str, Any]:
        """Return the object to write for giving the lease up."""
        return self._with_record(
            holderIdentity="",
            leaseDurationSeconds=RELEASED_SECONDS,
            acquireTime=rfc3339_micro(now),
            renewTime=rfc3339_micro(now),
        )

    def _with_record(self, **fields: Any) -> dict[str, Any]:
        body = deepcopy(self.body)
        body["spec"] = {**self.record, **fields}
        return body


def new_lease(
    namespace: str, name: str, identity: str, seconds: int, now: datetime
) -> dict[str, Any]:
    """Return the object to create when there is none."""
    empty = Lease({"metadata": {"namespace": namespace, "name": name}})
    body = empty.held_by(identity, seconds, now)
    body["spec"]["leaseTransitions"] = 0
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body}


def election_client(
    transport: Transport, timing: ElectionTiming, *, user_agent: str, clock: Clock
) -> Client:
    """Return the client of an election, which shares nothing with others.

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
        client: client of the API server; nothing else may throttle its requests.

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
