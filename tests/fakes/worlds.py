"""What every world of tests has: an API server, virtual time, operators for any kinds, patience.

The operators are made from their kinds alone: a new kind needs no plumbing here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from prometheus_client import CollectorRegistry

from controller.apimachinery.schemas import object_schema
from controller.apimachinery.schemas.object_schema import (
    GroupVersionKind,
    ObjectSchema,
    parse_schemas,
)
from controller.devcluster.apiserver import ApiServer
from controller.kube.client import Client
from controller.kube.resources import Resource
from controller.kube.transport import Transport
from controller.runtime.kind import Kind
from controller.runtime.leaderelection.election import Election
from controller.runtime.operator import Operator
from controller.runtime.settings import Settings
from tests.faults.faulty_transport import FaultyTransport, Rule

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def virtual_wall() -> datetime:
    """The time of day in virtual time, which begins with the year 2026."""
    return EPOCH + timedelta(seconds=asyncio.get_running_loop().time())


@asynccontextmanager
async def embedded_server(seed: int = 1) -> AsyncIterator[ApiServer]:
    """An API server in virtual time; it ends with the block."""
    server = ApiServer(wall=virtual_wall, clock=asyncio.get_running_loop(), rng=random.Random(seed))
    try:
        with patch.object(object_schema, "parse_schemas", _parse_once):
            yield server
    finally:
        await server.aclose()


def _parse_once(
    document: bytes, kinds: Iterable[GroupVersionKind]
) -> dict[GroupVersionKind, ObjectSchema]:
    """Parse a document of schemas: hundreds of servers publish the same ones."""
    return _parsed(document, tuple(kinds))


_parsed = lru_cache(maxsize=100)(parse_schemas)


class RunningOperator:
    """An operator in this process, behind a transport that can misbehave."""

    def __init__(
        self, operator: Operator, transport: FaultyTransport, kinds: tuple[Any, ...]
    ) -> None:
        self.operator = operator
        self.transport = transport
        self.kinds = kinds
        self._stop = asyncio.Event()
        self.task = asyncio.create_task(operator.run(self._stop))

    @property
    def kind(self) -> Any:
        """The first of its kinds."""
        return self.kinds[0]

    @property
    def running(self) -> bool:
        return not self.task.done()

    def enqueue(self, key: str) -> None:
        """Have the first of its kinds look at this object."""
        self.operator.controllers[self.kind.name].enqueue(key)

    @property
    def queued(self) -> int:
        """How many objects wait for the first of its kinds."""
        return len(self.operator.controllers[self.kind.name].queue)

    @property
    def unseen_writes(self) -> int:
        """How many objects are shown otherwise than the caches have them."""
        return self.operator.expectations.statistics().expectations

    def unready_cache(self) -> str | None:
        """Return why the caches are not to be trusted."""
        return self.operator.caches.unready()

    def unready(self, endpoint: str, check: str) -> str | None:
        """Return what a check of `readyz` or `livez` says against the process."""
        return self.operator.health.endpoints[endpoint][check]()

    def informer(self, resource: Resource[Any]) -> Any:
        """Return the one informer of a resource."""
        [found] = [
            each.informer for each in self.operator.caches.caches if str(resource) in str(each)
        ]
        return found

    async def stop(self) -> int:
        self._stop.set()
        return await self.task

    async def kill(self) -> None:
        """Drop everything: no request leaves any more, and nothing is cleaned up."""
        self.transport.sever()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class World:
    """Virtual or real time, and the operators that were started in it."""

    def __init__(self, transport: Transport, wall: Callable[[], datetime]) -> None:
        self.transport = transport
        self.wall = wall
        self.operators: list[RunningOperator] = []

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def client(self, user_agent: str, transport: Transport | None = None) -> Client:
        return Client(transport or self.transport, user_agent=user_agent, clock=self.loop)

    def run_operator(
        self,
        *kinds: Kind[Any],
        agent: str,
        rng: random.Random,
        rules: Iterable[Rule] = (),
        transport: Transport | None = None,
        settings: Settings | None = None,
        wall: Callable[[], datetime] | None = None,
        registry: CollectorRegistry | None = None,
        election: Election | None = None,
    ) -> RunningOperator:
        """Start an operator for these kinds; `kill_operators` ends it."""
        faulty = FaultyTransport(transport or self.transport, list(rules), clock=self.loop)
        operator = Operator(
            self.client(agent, faulty),
            kinds,
            settings or Settings(workers=4, metrics_address="", health_address=""),
            clock=self.loop,
            wall=wall or self.wall,
            rng=rng,
            registry=registry or CollectorRegistry(),
            election=election,
        )
        running = RunningOperator(operator, faulty, kinds)
        self.operators.append(running)
        return running

    async def kill_operators(self) -> None:
        for operator in self.operators:
            await operator.kill()

    async def eventually(
        self,
        reached: Callable[[], Any | Awaitable[Any]],
        *,
        seconds: float = 60.0,
        pause: float = 0.05,
    ) -> Any:
        """Wait until `reached` gives something true; fail with its name after `seconds`.

        A coroutine function asks the server: it is called when the server has changed, and once a
        second.
        """
        deadline = self.loop.time() + seconds
        answered, again = None, 0.0
        while True:
            revision = self.server.store.revision if self.server else None
            if answered is None or answered != revision or self.loop.time() >= again:
                result = reached()
                if isinstance(result, asyncio.Future) or asyncio.iscoroutine(result):
                    result = await result
                    answered, again = revision, self.loop.time() + 1.0
                if result:
                    return result
            if self.loop.time() > deadline:
                raise AssertionError(f"not reached within {seconds} s: {reached}")
            await asyncio.sleep(pause)

    async def settle(self, seconds: float) -> None:
        """Let time pass in which nothing ought to happen."""
        await asyncio.sleep(seconds)
