"""A Lease, and one candidate for it: takes it when it is free, then renews it until it is lost.

The lease expires by this process's clock alone, counted from the moment when its record was last
seen to change (LE-4). This process may write for a time counted from when its last successful
renewal was *sent* (LE-14), so it stops writing before any candidate may take the lease.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.apimachinery.conditions import rfc3339_micro
from controller.apimachinery.custom_object import mapping
from controller.kube.client import Client
from controller.kube.errors import Conflict, KubeError, NotFound
from controller.kube.http import ends_within
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.kube.transport import Transport
from controller.runtime.settings import ElectionTiming
from informers import Clock

# The record in a Lease: who holds it, since when, for how long.
#
# Everything here is a pure function of plain data. Records of other programs may lack fields or
# hold invalid ones; those count as absent.

LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", KubeObject)

RELEASED_SECONDS: Final = 1
"""Duration of a lease without a holder."""


class Lease(msgspec.Struct, frozen=True):
    """A Lease as it was read."""

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


# Metrics of leader election, with the names that client-go and controller-runtime use.


class ElectionMetrics:
    """Metrics of the election: leadership, and renewals that needed a read."""

    def __init__(self, registry: CollectorRegistry, name: str) -> None:
        self.leads = Gauge(
            "leader_election_master_status",
            "Whether this process holds the lease: 1, or 0",
            ("name",),
            registry=registry,
        ).labels(name)
        self.slow_path = Counter(
            "leader_election_slowpath",
            "Renewals that had to read the lease first, because another client had written it",
            ("name",),
            registry=registry,
        ).labels(name)


# The candidate.

_log = structlog.stdlib.get_logger("manta.election")

_SPREAD: Final = (0.4, 0.6)
"""A candidate reads the lease twice in each retry period, at random times: a released lease is
taken within two seconds."""


class Elector:
    """An `Election` on the running event loop.

    Args:
        identity: identity of this process; no other process ever has the same.
        now: a clock that continues while the machine sleeps.
        wall: the time of day, for the record only; no decision depends on it.

    Attributes:
        holder: identity of the last holder seen, empty for none.
        problem: why the last attempt failed, empty if it did not.
    """

    def __init__(
        self,
        lock: LeaseLock,
        identity: str,
        timing: ElectionTiming,
        *,
        now: Callable[[], float],
        wall: Callable[[], datetime],
        rng: random.Random,
        metrics: ElectionMetrics,
    ) -> None:
        self._lock = lock
        self._identity = identity
        self._timing = timing
        self._now = now
        self._wall = wall
        self._rng = rng
        self._metrics = metrics
        self._acquired, self._over = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._lead_until = -math.inf
        self._written: Lease | None = None
        self._record: Mapping[str, Any] | None = None
        self._expires = math.inf
        self._displaced = False
        self.holder = ""
        self.problem = ""
        metrics.leads.set(0)

    def is_leader(self) -> bool:
        """Return whether the lease is certain to hold now."""
        return self._now() < self._lead_until

    def time_left(self) -> float:
        """Return the seconds for which the lease is certain to hold; 0 if it is not."""
        return max(0.0, self._lead_until - self._now())

    async def acquire(self) -> None:
        """Return when this process leads.

        Raises:
            Exception: what ended the election, if anything but the API server did.
        """
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="leader election")
            self._task.add_done_callback(lambda _: self._over.set())
        acquired = asyncio.create_task(self._acquired.wait())
        try:
            await asyncio.wait({acquired, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if not self._acquired.is_set():
                self._task.result()
        finally:
            acquired.cancel()

    async def lost(self) -> None:
        """Return when this process no longer leads."""
        await self._over.wait()

    async def release(self) -> None:
        """Empty the holder if the lease is ours, for the next one to take it at once."""
        await self.aclose()
        if not self._acquired.is_set():
            return
        await ends_within(self._timing.renew_seconds, self._give_up())

    async def aclose(self) -> None:
        """Stop renewing; from then on this process does not lead."""
        self._resign()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        """Take the lease, then keep it."""
        try:
            while not await self._try():  # noqa: ASYNC110  it asks a server
                await asyncio.sleep(self._until_next_look())
            self._acquired.set()
            self._metrics.leads.set(1)
            _log.info("election.acquired", lease=str(self._lock), identity=self._identity)
            while await self._renewed():
                pass
            _log.error(
                "election.lost", lease=str(self._lock), holder=self.holder, reason=self.problem
            )
        finally:
            self._resign()

    def _resign(self) -> None:
        self._lead_until = -math.inf
        self._metrics.leads.set(0)

    def _until_next_look(self) -> float:
        """Return the seconds to the next attempt, which is no later than the lease's expiry."""
        usual = self._timing.retry_seconds * self._rng.uniform(*_SPREAD)
        left = self._expires - self._now()
        return min(usual, left) if left > 0 else usual

    async def _renewed(self) -> bool:
        """Renew after a while; return False if the time is up or another leads."""
        await asyncio.sleep(min(self._timing.retry_seconds, self.time_left()))
        return await self._try() or (not self._displaced and self.is_leader())

    async def _try(self) -> bool:
        """Try once to take or renew the lease; return whether it is ours."""
        left = self.time_left() or None
        try:
            async with asyncio.timeout(left):
                ours = await self._renew_unread() or await self._renew_read()
        except (KubeError, TimeoutError) as error:
            self._written = None  # what is stored is not known
            reason = str(error) or "no answer before the lease ends"
            if not self.problem:
                _log.warning("election.failing", lease=str(self._lock), error=reason)
            self.problem = reason
            return False
        self.problem = ""
        return ours

    async def _renew_unread(self) -> bool:
        """Renew on top of the last write; return False if it is not the last any more."""
        if self._written is None:
            return False
        sent = self._now()
        try:
            written = await self._lock.replace(self._ours(self._written))
        except Conflict:
            self._metrics.slow_path.inc()
            return False
        self._hold(written, sent)
        return True

    async def _renew_read(self) -> bool:
        """Read the lease, and write it if it is ours or free.

        One that was deleted is its holder's until it would have expired: the holder may write, and
        renews it. One that was never seen may have been deleted, too, and one that was free or had
        expired may have been taken and deleted since the last look.
        """
        lease = await self._lock.read()
        sent = self._now()
        if lease is not None:
            self._observe(lease)
        elif not self._acquired.is_set() and not self._is_suspected:
            self._suspect(sent)
        others = self._record is None or self.holder not in {"", self._identity}
        if others and (self._acquired.is_set() or not self._free):
            self._displaced = self._acquired.is_set()
            return False
        if lease is None:
            self._hold(await self._lock.create(self._new()), sent)
        else:
            self._hold(await self._lock.replace(self._ours(lease)), sent)
        return True

    def _suspect(self, now: float) -> None:
        """Give the last holder of an absent lease time to make it anew, or to stop writing."""
        known = now if math.isinf(self._expires) else self._expires
        self._expires = max(known, now + self._timing.renew_seconds)
        self._record = None
        wait = round(self._expires - now, 1)
        _log.info("election.no_lease", lease=str(self._lock), created_after_seconds=wait)

    @property
    def _is_suspected(self) -> bool:
        """True if no lease was found at the last look."""
        return self._record is None and not math.isinf(self._expires)

    @property
    def _free(self) -> bool:
        return self._now() >= self._expires

    def _new(self) -> dict[str, Any]:
        lock, seconds = self._lock, self._timing.lease_seconds
        return new_lease(lock.namespace, lock.name, self._identity, seconds, self._wall())

    def _ours(self, lease: Lease) -> dict[str, Any]:
        return lease.held_by(self._identity, self._timing.lease_seconds, self._wall())

    def _hold(self, written: Lease, sent: float) -> None:
        self._written = written
        self._lead_until = sent + self._timing.renew_seconds
        self._observe(written)

    def _observe(self, lease: Lease) -> None:
        """Record a changed lease: its whole duration counts from this moment."""
        if lease.record == self._record:
            return
        self._record = lease.record
        self._expires = self._now() + lease.duration(self._timing.lease_seconds)
        if lease.holder != self.holder:
            self.holder = lease.holder
            _log.info("election.leader", lease=str(self._lock), holder=lease.holder)

    async def _give_up(self) -> None:
        """Release the lease; retry after a conflict, give up after any other error."""
        while True:
            try:
                lease = await self._lock.read()
                if lease is None or lease.holder != self._identity:
                    return
                await self._lock.replace(lease.released(self._wall()))
            except Conflict:
                continue
            except KubeError as error:
                _log.warning("election.not_released", lease=str(self._lock), error=str(error))
            else:
                _log.info("election.released", lease=str(self._lock))
            return
