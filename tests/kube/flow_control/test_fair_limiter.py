"""The limit of requests a second, and slots that are given to owners in turn."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from controller.kube.errors import NotSent
from controller.kube.limits import (
    MAX_SHARE,
    NAMESPACE_SHARE,
    SLOW_SHARE,
    FairLimiter,
    Lane,
    RateLimiter,
)
from controller.kube.resources import PODS
from controller.runtime.metrics import ClientCollector
from tests.kube.fakes import POD, FakeTransport, answer, client

SLOTS = 80
READ = Lane("get", "pods", "default")
CREATE = Lane("create", "pods", "default")
SICK = Lane("create", "pods", "sick")


def limiter(slots: int) -> FairLimiter:
    return FairLimiter(slots, asyncio.get_running_loop())


@asynccontextmanager
async def taken(turns: FairLimiter, owner: str, lane: Lane) -> AsyncGenerator[None]:
    slot = await turns.acquire(owner, lane, deadline=1e6)
    try:
        yield
    finally:
        turns.release(slot)


async def hold(
    turns: FairLimiter, owner: str, order: list[str], lane: Lane = READ, seconds: float = 1
) -> None:
    async with taken(turns, owner, lane):
        order.append(owner)
        await asyncio.sleep(seconds)


async def test_the_last_slots_are_for_owners_that_hold_few():
    turns, order = limiter(40), list[str]()
    tasks = [asyncio.create_task(hold(turns, big, order)) for big in "abcdef" * 10]
    await asyncio.sleep(0.5)
    assert len(order) == 40 - 40 // MAX_SHARE, "all but the reserve"
    tasks += [asyncio.create_task(hold(turns, small, order)) for small in "xyz"]
    await asyncio.sleep(0)
    assert order[-3:] == ["x", "y", "z"], "they need not wait"
    await asyncio.gather(*tasks)
    assert len(order) == 63


async def test_nobody_holds_more_than_a_share():
    turns, order = limiter(40), list[str]()
    tasks = [asyncio.create_task(hold(turns, "big", order)) for _ in range(10)]
    await asyncio.sleep(0.5)
    assert len(order) == 40 // MAX_SHARE
    await asyncio.gather(*tasks)
    assert len(order) == 10


async def test_a_slot_is_not_lost_with_whoever_waited_for_it():
    turns, order = limiter(1), list[str]()
    tasks = [asyncio.create_task(hold(turns, owner, order)) for owner in "abc"]
    await asyncio.sleep(0.5)
    tasks[1].cancel()  # while it waits
    await asyncio.sleep(0.499)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["a", "c"]

    async with taken(turns, "d", READ):
        waiting = asyncio.create_task(hold(turns, "e", order))
        await asyncio.sleep(0)
    waiting.cancel()  # in the moment in which it is given the slot
    await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(0.1), taken(turns, "f", READ):
        pass


async def test_writes_of_one_namespace_leave_slots_to_the_others():
    turns, order = limiter(SLOTS), list[str]()
    sick = [asyncio.create_task(hold(turns, f"{n}", order, SICK, 10)) for n in range(200)]
    await asyncio.sleep(0.5)
    assert len(order) == SLOTS * NAMESPACE_SHARE
    assert turns.waiting == 200 - len(order)
    began = asyncio.get_running_loop().time()
    await hold(turns, "healthy", order, CREATE)
    assert asyncio.get_running_loop().time() - began == 1
    for task in sick:
        task.cancel()
    await asyncio.gather(*sick, return_exceptions=True)
    assert (turns.in_flight, turns.waiting) == (0, 0)


async def test_writes_known_to_hang_leave_slots_to_others_of_their_namespace():
    turns, order = limiter(SLOTS), list[str]()

    async def keep_trying(owner: str) -> None:
        while True:
            await hold(turns, owner, order, SICK, 10)

    sick = [asyncio.create_task(keep_trying(f"{n}")) for n in range(200)]
    await asyncio.sleep(95)
    assert turns.slow == SLOTS * SLOW_SHARE
    for number in range(30):
        began = asyncio.get_running_loop().time()
        await hold(turns, f"healthy {number}", order, SICK, 0.02)
        assert asyncio.get_running_loop().time() - began < 0.1
    counts = [order.count(f"{n}") for n in range(200)]
    assert max(counts) - min(counts) <= 2, "they have turns as well"
    for task in sick:
        task.cancel()
    await asyncio.gather(*sick, return_exceptions=True)


async def test_one_quick_answer_makes_a_flow_quick_again_in_that_lane():
    turns, order = limiter(SLOTS), list[str]()
    await hold(turns, "a", order, SICK, 2)
    assert ("a", SICK) in turns._slow_flows
    await hold(turns, "a", order, CREATE, 0.02)
    assert ("a", SICK) in turns._slow_flows
    await hold(turns, "a", order, SICK, 0.02)
    assert not turns._slow_flows


async def test_metrics_show_who_waits_and_who_is_slow():
    registry = CollectorRegistry()
    transport = FakeTransport(lambda: answer(200, POD))
    api = client(transport, concurrency=2)
    registry.register(ClientCollector(lambda: api))
    transport.hold = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(api.for_flow(name).create(PODS, "default", {}))
        group.create_task(api.for_flow("a").get(PODS, "default", "x"))
        await asyncio.sleep(2)
        counts = {
            state: registry.get_sample_value("manta_client_requests", {"state": state})
            for state in ("waiting", "in_flight", "slow")
        }
        assert counts == {"waiting": 1, "in_flight": 3, "slow": 1}
        transport.hold.set()


async def test_slow_flows_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("controller.kube.limits._MOST_REMEMBERED", 3)
    turns = limiter(SLOTS)
    for name in "abcde":
        await hold(turns, name, [], SICK, 2)
    assert [flow for flow, _ in turns._slow_flows] == ["c", "d", "e"]


async def test_two_hundred_writes_that_begin_to_hang_at_once_delay_one_for_seconds():
    turns, order = limiter(SLOTS), list[str]()
    loop = asyncio.get_running_loop()
    hanging = [
        loop.create_task(hold(turns, f"sick {number}", order, CREATE, 10)) for number in range(200)
    ]
    await asyncio.sleep(0.5)
    began = loop.time()
    for _ in range(5):
        await hold(turns, "healthy", [], CREATE, 0.02)
    assert loop.time() - began < 4
    assert turns.in_flight == len(hanging)
    await asyncio.gather(*hanging)
    assert (turns.in_flight, turns.waiting, turns.slow) == (0, 0, 0)


async def test_the_number_of_writes_that_hang_is_bounded():
    turns = limiter(10)
    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(hold(turns, f"sick {number}", [], CREATE, 30))
        await asyncio.sleep(20)
        assert turns.in_flight == 30 - 3, "and a quarter is left to other namespaces"
    assert turns.in_flight == 0


async def test_owners_with_long_queues_delay_nobody_else():
    """Five with 300 writes each; a sixth makes ten, one after the other."""
    alone = await seconds_of_ten_writes(crowd=0)
    assert await seconds_of_ten_writes(crowd=5) < 2 * alone


async def seconds_of_ten_writes(*, crowd: int) -> float:
    turns, rng = limiter(SLOTS), random.Random(1)
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        for number in range(300 * crowd):
            seconds = rng.uniform(0.01, 0.03)
            group.create_task(hold(turns, f"{number % crowd}", [], CREATE, seconds))
        await asyncio.sleep(0)
        began = loop.time()
        for _ in range(10):
            await hold(turns, "mine", [], CREATE, rng.uniform(0.01, 0.03))
        return loop.time() - began


async def turns(limiter: RateLimiter, count: int, limit: float = 100.0) -> list[float]:
    """When each of so many requests, which ask at once, is sent."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def one() -> float:
        await limiter.wait(began + limit)
        return round(loop.time() - began, 3)

    return await asyncio.gather(*(one() for _ in range(count)))


async def test_a_burst_is_sent_at_once_and_the_rest_at_the_rate():
    limiter = RateLimiter(2.0, 3, asyncio.get_running_loop())
    assert await turns(limiter, 6) == [0, 0, 0, 0.5, 1.0, 1.5]


async def test_a_pause_earns_another_burst_and_no_more():
    limiter = RateLimiter(2.0, 3, asyncio.get_running_loop())
    await turns(limiter, 3)
    await asyncio.sleep(60)
    assert await turns(limiter, 4) == [0, 0, 0, 0.5]


async def test_who_would_wait_beyond_the_deadline_is_told_at_once_and_takes_no_turn():
    limiter = RateLimiter(1.0, 1, asyncio.get_running_loop())
    assert await turns(limiter, 2) == [0, 1.0]
    loop = asyncio.get_running_loop()
    before = loop.time()
    with pytest.raises(NotSent, match="its turn is in"):
        await limiter.wait(before + 0.5)
    assert loop.time() == before
    assert await turns(limiter, 1) == [1.0]
