"""A lease in memory, and candidates for it."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry

from controller.kube.errors import AlreadyExists, Conflict, Status
from controller.runtime.election import awake_or_not
from controller.runtime.elector import ElectionMetrics, Elector, Lease, LeaseLock
from controller.runtime.settings import ElectionTiming

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def conflict() -> Conflict:
    return Conflict(Status(409, "Conflict", "it has changed"))


class SharedLock:
    """A lease in memory, for candidates on any thread; at first nobody holds it."""

    namespace, name = "default", "lease"

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.revision = 0
        self.asked_at = list[float]()
        self.delay = 0.0
        self.failure: Exception | None = None
        self._mutex = threading.Lock()
        self.store({"metadata": {"namespace": self.namespace, "name": self.name}})

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    async def read(self) -> Lease | None:
        await self._answer()
        return self.lease

    async def create(self, body: dict[str, Any]) -> Lease:
        if self.lease is not None:
            raise AlreadyExists(Status(409, "AlreadyExists", "there is one"))
        return await self.replace(body)

    async def replace(self, body: dict[str, Any]) -> Lease:
        await self._answer()
        with self._mutex:
            revision = body["metadata"].get("resourceVersion", "")
            if self.lease is not None and revision != str(self.revision):
                raise conflict()
            return self.store(body)

    def store(self, body: dict[str, Any]) -> Lease:
        """Write it, whoever may have written it meanwhile."""
        self.revision += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.revision)}
        self.lease = Lease({**body, "metadata": metadata})
        return self.lease

    def taken_by(self, identity: str) -> None:
        """Somebody takes the lease, or makes it."""
        lease = self.lease or Lease({"metadata": {"name": self.name}})
        self.store(lease.held_by(identity, 15, NOW))

    @property
    def holder(self) -> str:
        return self.lease.holder if self.lease else ""

    async def _answer(self) -> None:
        self.asked_at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.delay)
        if self.failure is not None:
            raise self.failure


def elector(
    lock: SharedLock,
    identity: str = "a",
    timing: ElectionTiming = ElectionTiming(),  # noqa: B008  it is frozen
    *,
    now: Callable[[], float] = awake_or_not,
    wall: Callable[[], datetime] = lambda: NOW,
    registry: CollectorRegistry | None = None,
) -> Elector:
    shared: Any = lock
    typed: LeaseLock = shared
    return Elector(
        typed,
        identity,
        timing,
        now=now,
        wall=wall,
        rng=random.Random(1),
        metrics=ElectionMetrics(registry or CollectorRegistry(), "lease"),
    )
