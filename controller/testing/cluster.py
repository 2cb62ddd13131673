"""An API server in virtual time, a user, and operators that are made from their kinds alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, cast
from unittest.mock import patch

from prometheus_client import CollectorRegistry

from controller.apimachinery import object_schema
from controller.apimachinery.object_schema import (
    GroupVersionKind,
    ObjectSchema,
    parse_schemas,
)
from controller.kube.client import Client
from controller.kube.transport import Transport
from controller.runtime.election import Election
from controller.runtime.kind import Kind
from controller.runtime.operator import Operator
from controller.runtime.settings import Settings
from controller.testing.faults import FaultyTransport, Rule
from devcluster.apiserver import ApiServer
from devcluster.nodes import run_nodes

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def virtual_wall() -> datetime:
    """The time of day in virtual time, which begins with the year 2026."""
    return EPOCH + timedelta(seconds=asyncio.get_running_loop().time())


@asynccontextmanager
async def embedded_server(seed: int = 1) -> AsyncGenerator[ApiServer]:
    """An API server in virtual time; it ends with the block."""
    server = ApiServer(wall=virtual_wall, clock=asyncio.get_running_loop(), rng=random.Random(seed))
    try:
        with patch.object(object_schema, "parse_schemas", _parse_once):
            yield server
    finally:
        await server.aclose()


@asynccontextmanager
async def embedded_cluster(seed: int = 1) -> AsyncGenerator[Cluster]:
    """A cluster of its own in virtual time; it ends with the block, and so do its operators."""
    async with embedded_server(seed) as server:
        cluster = Cluster(server, virtual_wall, server)
        try:
            yield cluster
        finally:
            await cluster.kill_operators()


def _parse_once(
    document: bytes, kinds: Iterable[GroupVersionKind]
) -> dict[GroupVersionKind, ObjectSchema]:
    """Parse a document of schemas: hundreds of servers publish the same ones."""
    return _parsed(document, tuple(kinds))


_parsed = lru_cache(maxsize=100)(parse_schemas)


class RunningOperator:
    """An operator in this process, behind a transport that can misbehave.

    Attributes:
        transport: its faults, and a journal of all its requests and of the events that it got.
        kinds: what it reconciles.
        task: ends with it.
    """

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
        """Whether it has not ended."""
        return not self.task.done()

    def enqueue(self, key: str) -> None:
        """Have the first of its kinds look at this object."""
        self.operator.controllers[self.kind.name].enqueue(key)

    async def stop(self) -> int:
        """End it as a signal does; return the exit status."""
        self._stop.set()
        return await self.task

    async def kill(self) -> None:
        """Drop everything: no request leaves any more, and nothing is cleaned up."""
        self.transport.sever()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Cluster:
    """An API server, users of it, and the operators that were started.

    Args:
        transport: how clients reach the API server.
        wall: the time of day.
        server: the API server, if it is an embedded one.

    Attributes:
        operators: those that were started, in order.
    """

    def __init__(
        self,
        transport: Transport,
        wall: Callable[[], datetime],
        server: ApiServer | None = None,
    ) -> None:
        self.transport = transport
        self.wall = wall
        self.server = server
        self.user = self.client("user")
        self.operators: list[RunningOperator] = []

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The clock: `time()` in seconds."""
        return asyncio.get_running_loop()

    def client(self, user_agent: str, transport: Transport | None = None) -> Client:
        """Return a client of the API server; no fault befalls it unless its transport has one."""
        return Client(transport or self.transport, user_agent=user_agent, clock=self.loop)

    @asynccontextmanager
    async def nodes(self) -> AsyncGenerator[None]:
        """Schedule and run pods, simulated, as long as the block runs; else they stay pending."""
        client, rng = self.client("nodes"), random.Random(1)
        async with run_nodes(client, clock=self.loop, wall=self.wall, rng=rng):
            yield

    def run_operator(
        self,
        *kinds: Kind[Any],
        agent: str = "operator",
        rng: random.Random | None = None,
        rules: Iterable[Rule] = (),
        transport: Transport | None = None,
        settings: Settings | None = None,
        wall: Callable[[], datetime] | None = None,
        registry: CollectorRegistry | None = None,
        election: Election | None = None,
    ) -> RunningOperator:
        """Start an operator for these kinds; `kill_operators` ends it.

        Args:
            kinds: what it reconciles.
            agent: its user agent.
            rng: of its jitter; by default the same in every run.
            rules: faults between it and the API server; `RunningOperator.transport` has them.
            transport: how it reaches the API server, if not as the cluster does.
            settings: by default four workers, no endpoints and no election.
            wall: its time of day, if not the cluster's.
            registry: of its metrics.
            election: who decides whether it may work.
        """
        faulty = FaultyTransport(transport or self.transport, list(rules), clock=self.loop)
        operator = Operator(
            self.client(agent, faulty),
            kinds,
            settings or Settings(workers=4, metrics_address="", health_address=""),
            clock=self.loop,
            wall=wall or self.wall,
            rng=rng or random.Random(1),
            registry=registry or CollectorRegistry(),
            election=election,
        )
        running = RunningOperator(operator, faulty, kinds)
        self.operators.append(running)
        return running

    async def kill_operators(self) -> None:
        """Drop all of them; see `RunningOperator.kill`."""
        for operator in self.operators:
            await operator.kill()

    async def eventually(
        self,
        reached: Callable[[], Any | Awaitable[Any]],
        *,
        seconds: float = 60.0,
        pause: float = 0.05,
    ) -> Any:
        """Wait until `reached` gives something true, and return that.

        A coroutine function asks the server: it is called when the server has changed, and once a
        second.

        Raises:
            AssertionError: `seconds` have passed.
        """
        deadline = self.loop.time() + seconds
        answered, again = None, 0.0
        while True:
            revision = self.server.store.revision if self.server else None
            if answered is None or answered != revision or self.loop.time() >= again:
                result: Any = reached()
                if isinstance(result, Awaitable):
                    result = await cast("Awaitable[Any]", result)
                    answered, again = revision, self.loop.time() + 1.0
                if result:
                    return result
            if self.loop.time() > deadline:
                raise AssertionError(f"not reached within {seconds} s: {reached}")
            await asyncio.sleep(pause)

    async def settle(self, seconds: float) -> None:
        """Let time pass in which nothing ought to happen."""
        await asyncio.sleep(seconds)
