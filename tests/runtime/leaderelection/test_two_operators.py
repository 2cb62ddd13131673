"""Two operators with one lease, on the embedded API server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from controller.runtime.elector import LEASES, ElectionMetrics, Elector, LeaseLock, new_lease
from controller.runtime.settings import ElectionTiming, Settings
from controller.testing.cluster import RunningOperator
from controller.testing.faults import DelayedResponse, FaultyTransport, Rule
from tests.runtime.widgets import WidgetWorld, widget_world

NAMESPACE, NAME = "default", "lease"


def elector(world: WidgetWorld, identity: str, transport: FaultyTransport | None = None) -> Elector:
    return Elector(
        LeaseLock(world.client(identity, transport), NAMESPACE, NAME),
        identity,
        ElectionTiming(),
        now=world.loop.time,
        wall=world.wall,
        rng=random.Random(identity),
        metrics=ElectionMetrics(CollectorRegistry(), NAME),
    )


class Pair:
    """A leader and a standby; the election of the one that dies dies with it."""

    def __init__(self, world: WidgetWorld) -> None:
        self.world = world
        self.elections: list[Elector] = []
        self.operators: list[RunningOperator] = []

    async def start(self) -> None:
        identity = f"operator-{len(self.operators)}"
        election = elector(self.world, identity)
        self.elections.append(election)
        self.operators.append(self.world.start(election=election, seed=len(self.operators)))
        await asyncio.sleep(2)

    async def kill_leader(self) -> None:
        await self.elections[0].aclose()
        await self.operators[0].kill()

    async def holder(self) -> str:
        lease = await self.world.user.get_raw(LEASES, NAMESPACE, NAME)
        return lease["spec"]["holderIdentity"]


@pytest.fixture(name="pair")
async def _pair() -> AsyncIterator[Pair]:
    async with widget_world() as world:
        free = new_lease(NAMESPACE, NAME, "", 1, world.wall())
        await world.user.create(LEASES, NAMESPACE, free)
        made = Pair(world)
        await made.start()
        await made.start()
        yield made
        for each in made.elections:
            await each.aclose()


async def test_only_the_leader_writes(pair: Pair):
    await pair.world.create(size=3)
    await pair.world.counted(3)
    assert not pair.operators[1].transport.journal.writes
    assert await pair.holder() == "operator-0"


async def test_a_standby_has_its_caches_and_is_ready(pair: Pair):
    assert pair.operators[1].operator.caches.unready() is None
    assert pair.operators[1].running


async def test_a_standby_finishes_what_a_killed_leader_began_and_makes_nothing_twice(pair: Pair):
    slow = Rule(DelayedResponse(1.0), "configmaps", frozenset({"create"}), skip=100)
    pair.operators[0].transport.rules.append(slow)
    for number in range(100):
        await pair.world.create(f"w{number}", size=3)
    await pair.world.eventually(lambda: len(pair.world.created) > 100)
    await pair.kill_leader()
    died, begun = pair.world.loop.time(), len(pair.world.created)
    assert begun < 300
    await pair.world.eventually(lambda: len(pair.world.created) > begun, seconds=20, pause=0.01)
    assert 13 < pair.world.loop.time() - died < 15 + 1.2 + 0.2, "the lease, and one look at it"
    for number in range(100):
        await pair.world.counted(3, f"w{number}", seconds=20)
    assert pair.world.loop.time() - died < 20
    assert pair.world.most == 300
    assert not pair.world.deleted


async def test_after_a_clean_stop_the_standby_writes_within_two_seconds(pair: Pair):
    stopping = asyncio.create_task(pair.operators[0].stop())
    await pair.world.create(size=1)

    async def is_free() -> bool:
        return not await pair.holder()

    await pair.world.eventually(is_free, pause=0.01)
    freed = pair.world.loop.time()
    await stopping
    await pair.world.eventually(lambda: pair.world.created, seconds=2, pause=0.01)
    assert pair.world.loop.time() - freed < 2


async def test_a_leader_whose_writes_hang_ends_in_time_and_no_other_leads_before(pair: Pair):
    hanging = Rule(DelayedResponse(3600.0), "configmaps", frozenset({"create"}))
    pair.operators[0].transport.rules.append(hanging)
    await pair.world.create(size=3)
    await pair.world.eventually(lambda: pair.world.created)
    stopping = asyncio.create_task(pair.operators[0].stop())
    began = pair.world.loop.time()
    while not stopping.done():
        assert await pair.holder() in {"operator-0", ""}, "nobody leads before it has ended"
        await asyncio.sleep(0.1)
    assert pair.world.loop.time() - began < Settings().grace_seconds
    await pair.world.counted(3, seconds=20)
    assert pair.world.most == 3


async def test_a_leader_that_loses_the_lease_ends_with_an_error_and_writes_nothing(pair: Pair):
    lease = await pair.world.user.get_raw(LEASES, NAMESPACE, NAME)
    lease["spec"]["holderIdentity"] = "somebody"
    await pair.world.user.replace(LEASES, NAMESPACE, NAME, lease)
    assert await asyncio.wait_for(pair.operators[0].task, 5) == 1
    before = len(pair.operators[0].transport.journal.writes)
    await pair.world.create(size=1)
    await pair.world.counted(1, seconds=30)
    assert len(pair.operators[0].transport.journal.writes) == before
    assert await pair.holder() == "operator-1"
