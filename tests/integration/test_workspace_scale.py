"""A hundred Workspaces whose claims are pending for ten minutes, and five workers.

Kaito's controller polled inside its reconcile: five blocked workers stopped it, and 95 Workspaces
waited. Each request takes five milliseconds here, and time is virtual.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.kaito.api.karpenter import NODE_CLAIMS
from controller.kaito.workspace.kind import WorkspaceKind
from controller.runtime.executor import Executor
from controller.runtime.settings import Settings
from controller.testing.faults import DelayedResponse, Rule
from devcluster.karpenter import ClaimBehaviour
from tests.integration.harness import OPERATOR, RunningOperator, embedded_world
from tests.integration.workspaces import Cloud, Workspaces, opened

pytestmark = [
    pytest.mark.embedded_only,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("silence"),
]

CROWD = 100
WORKERS = 5
PENDING = 600.0
WRITES = frozenset({"create", "patch", "update", "delete"})


class Crowd:
    """A hundred Workspaces that an operator with five workers sees at once."""

    def __init__(self, spaces: Workspaces, *, slow_reconciles: int = 1024) -> None:
        self.spaces = spaces
        self.registry = CollectorRegistry()
        self.settings = Settings(
            namespaces=(spaces.world.namespace,),
            workers=WORKERS,
            reconcile_timeout_seconds=0,
            slow_reconciles=slow_reconciles,
            metrics_address="",
            health_address="",
        )
        self.operator: RunningOperator

    def start(self) -> None:
        self.operator = self.spaces.world.run_operator(
            WorkspaceKind(),
            agent=OPERATOR,
            rng=self.spaces.world.rng,
            rules=[Rule(DelayedResponse(0.005), verbs=WRITES)],
            settings=self.settings,
            registry=self.registry,
        )

    async def create(self, prefix: str = "w", count: int = CROWD) -> None:
        for number in range(count):
            await self.spaces.create(f"{prefix}{number}")

    async def claimed(self, count: int, *, seconds: float) -> list[float]:
        """Wait until at least so many Workspaces have a claim; when each was created."""
        referee = self.spaces.referee
        await self.spaces.world.eventually(
            lambda: len(referee.created) >= count, seconds=seconds, pause=0.1
        )
        return referee.times

    def metric(self, name: str) -> float:
        found = (sample for family in self.registry.collect() for sample in family.samples)
        return sum(sample.value for sample in found if sample.name == name)

    @property
    def requests(self) -> dict[tuple[str, str], int]:
        server = self.spaces.world.server
        assert server is not None
        return {
            (verb, resource): count
            for (agent, verb, resource), count in server.audit.requests.items()
            if agent.startswith(OPERATOR) and verb != "watch"
        }


@asynccontextmanager
async def crowd(**options: Any) -> AsyncIterator[Crowd]:
    cloud = Cloud(ClaimBehaviour(node_after=PENDING))
    async with embedded_world() as world, opened(world, cloud) as spaces:
        yield Crowd(spaces, **options)


@pytest.mark.slow
async def test_a_hundred_workspaces_wait_for_nodes_and_hold_no_worker():
    async with crowd() as many:
        await many.create()
        many.start()
        world = many.spaces.world
        times = await many.claimed(CROWD, seconds=60)
        assert times[-1] - times[0] < 1
        await world.settle(5)
        assert many.spaces.referee.most.most_common(1)[0][1] == 1

        began = world.loop.time()
        await many.create("late", 1)
        times = await many.claimed(CROWD + 1, seconds=60)
        assert times[-1] - began < 1
        await world.settle(5)

        before, reconciles = many.requests, many.metric("controller_runtime_reconcile_total")
        held: set[float] = set()
        for _ in range(30):
            await world.settle(10)
            held.add(many.metric("controller_runtime_active_workers"))
        assert held == {0}
        assert many.metric("controller_runtime_reconcile_total") == reconciles
        assert many.requests == before
        assert sum(before.values()) < 8 * CROWD  # two of them events and revisions

        await many.spaces.has_nodes("w0", seconds=PENDING)
        for number in range(CROWD):
            await many.spaces.has_nodes(f"w{number}", seconds=60)
        assert many.spaces.referee.created.total() == CROWD + 1
        assert many.spaces.referee.deleted.total() == 0


async def test_with_a_reconcile_that_blocks_the_others_wait(monkeypatch: pytest.MonkeyPatch):
    """The negative control: what is measured above shows what Kaito's users have seen."""
    execute = Executor.execute

    async def poll(self: Executor, execution: Any) -> Any:
        outcome = await execute(self, execution)
        await asyncio.sleep(240)  # until the claims are ready, as Kaito did
        return outcome

    monkeypatch.setattr(Executor, "execute", poll)
    async with crowd(slow_reconciles=1) as many:
        await many.create()
        many.start()
        await many.claimed(1, seconds=60)
        await many.spaces.world.settle(200)
        blocked: Callable[[], int] = lambda: len(many.spaces.referee.created)  # noqa: E731
        assert blocked() <= WORKERS + 1
        found = await many.spaces.world.user.list(NODE_CLAIMS, "")
        assert len(found.items) <= WORKERS + 1
