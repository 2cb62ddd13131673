"""The guarantees of upstream's queues, and what they lack."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from tests.workqueue.fakes import FakeClock, about, taken
from workqueue import LOW_PRIORITY, Backoff, Closed, WorkQueue
from workqueue.prometheus import QueueCollector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NO_JITTER = Backoff(base=0.001, cap=1000.0, jitter=0)


def make(**options) -> WorkQueue:
    options.setdefault("clock", asyncio.get_running_loop())
    options.setdefault("rng", random.Random(1))
    return WorkQueue(**options)


def now() -> float:
    return asyncio.get_running_loop().time()


async def take_all(queue: WorkQueue) -> list:
    """Take every key that is ready, and give them all back."""
    keys = [await queue.get() for _ in range(len(queue))]
    for key in keys:
        queue.done(key)
    return keys


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def idle(queue: WorkQueue) -> None:
    while queue.statistics().dirty or queue.statistics().processing:  # noqa: ASYNC110 - virtual
        await asyncio.sleep(0.01)


async def work(queue: WorkQueue, run: Callable[[object], Awaitable[None]]) -> None:
    """Be a worker until the queue ends."""
    while True:
        try:
            async with taken(queue) as key:
                await run(key)
        except Closed:
            return


@pytest.mark.parametrize("ending", ["drain", "close"])
async def test_everything_is_consumed_and_nothing_after_shutdown(ending: str):
    queue, served, held = make(), Counter(), set()

    async def run(key: object) -> None:
        assert key not in held, "two workers have one key"
        held.add(key)
        served[key] += 1
        await asyncio.sleep(0.003)
        held.discard(key)

    async def produce(producer: int) -> None:
        for number in range(50):
            queue.add((producer, number))
            await asyncio.sleep(0.001)

    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(work(queue, run))
        await asyncio.gather(*(produce(producer) for producer in range(50)))
        if ending == "drain":
            assert len(queue) > 0
            assert await queue.drain() == set()
        else:
            await idle(queue)
            queue.close()
        queue.add("after shutdown")
    assert served == Counter({(p, n): 1 for p in range(50) for n in range(50)})
    assert len(queue) == 0


async def test_a_key_that_is_done_is_not_retained():
    class Key:
        pass

    queue, key = make(), Key()
    gone = weakref.ref(key)
    queue.add(key)
    queue.add(key, priority=3)
    queue.add_after(key, 5)
    async with taken(queue):
        queue.add_rate_limited(key)
    await asyncio.sleep(1)
    async with taken(queue):
        queue.forget(key)
    del key
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("seed", range(5))
async def test_delayed_keys_come_by_their_times_whatever_the_order_of_adds(seed: int):
    queue, delays = make(), list(range(1, 21))
    random.Random(seed).shuffle(delays)
    for delay in delays:
        queue.add_after(delay, delay)
    order = []
    for _ in delays:
        async with taken(queue) as key:
            order.append(key)
            assert now() == about(key)
    assert order == sorted(delays)


async def test_no_timer_ticks_after_shutdown():
    clock = FakeClock()
    queue = make(name="q", clock=clock, metrics=QueueCollector(CollectorRegistry()))
    queue.add_after("a", 10)
    queue.add("b")
    assert clock.armed == [1010.0]
    queue.close()
    assert clock.armed == []
    draining = make(clock=clock)
    draining.add_after("a", 10)
    await draining.drain(deadline=clock.time() + 5)
    assert clock.armed == []


class Scrape:
    """The metrics of one queue, read as Prometheus would."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.clock = FakeClock()
        self.queue = make(name="q", clock=self.clock, metrics=QueueCollector(self.registry))

    def __call__(self, metric: str, **labels: str) -> float | None:
        labels = {"name": "q", "controller": "q", **labels}
        return self.registry.get_sample_value(f"workqueue_{metric}", labels)

    def depth(self, priority: int = 0) -> float | None:
        return self("depth", priority=str(priority))


async def test_metrics_follow_a_key_and_count_re_adds_in_flight_once():
    scrape = Scrape()
    queue, clock = scrape.queue, scrape.clock
    queue.add("a")
    assert (scrape("adds_total"), scrape.depth()) == (1, 1)
    clock.advance(50e-6)
    await queue.get()
    assert scrape.depth() == 0
    assert scrape("queue_duration_seconds_sum") == pytest.approx(50e-6)
    for _ in range(5):
        queue.add("a")
    assert (scrape("adds_total"), scrape.depth()) == (2, 1)
    clock.advance(25e-6)
    assert scrape("unfinished_work_seconds") == pytest.approx(25e-6)
    queue.done("a")
    assert scrape("work_duration_seconds_sum") == pytest.approx(25e-6)
    assert scrape.depth() == 1
    clock.advance(10e-6)
    await queue.get()
    assert scrape("queue_duration_seconds_sum") == pytest.approx(85e-6)
    assert (scrape("queue_duration_seconds_count"), scrape.depth()) == (2, 0)
    queue.done("a")
    assert scrape("work_duration_seconds_count") == 2
    assert scrape("adds_total") == 2


async def test_waiting_keys_are_invisible_until_ready():
    scrape = Scrape()
    queue, clock = scrape.queue, scrape.clock
    queue.add_after("a", 10)
    queue.add_after("b", 20)
    queue.add("c")
    assert (len(queue), scrape.depth(), scrape("adds_total")) == (1, 1, 1)
    clock.advance(10)
    assert (len(queue), scrape.depth(), scrape("adds_total")) == (2, 2, 2)
    clock.advance(10)
    assert (len(queue), scrape.depth(), scrape("adds_total")) == (3, 3, 3)
    assert scrape("retries_total") == 2


async def test_depth_and_adds_count_a_promoted_key_once():
    scrape = Scrape()
    queue, clock = scrape.queue, scrape.clock
    queue.add_after("T155", 60)
    assert (scrape.depth(), scrape("adds_total")) == (0, 0)
    queue.add("T155")
    assert (scrape.depth(), scrape("adds_total")) == (1, 1)

    queue.add_after("T156", 60, priority=0)
    queue.add("T156", priority=20)
    assert (scrape.depth(0), scrape.depth(20), scrape("adds_total")) == (1, 1, 2)

    queue.add_after("T165", 60)
    clock.advance(60)
    assert (scrape.depth(), scrape("adds_total")) == (2, 3)
    queue.add("T165")
    assert (scrape.depth(), scrape("adds_total")) == (2, 3)

    assert len(await take_all(queue)) == 3
    assert (scrape.depth(0), scrape.depth(20), scrape("adds_total")) == (0, 0, 3)


async def test_higher_priorities_come_first_within_the_ageing_bound():
    queue = make(ageing=3.0)
    for _ in range(10):
        for key in range(20):
            queue.add(f"low {key}", priority=0)
        await asyncio.sleep(1)
        for key in range(20):
            queue.add(f"high {key}", priority=1)
        keys = await take_all(queue)
        assert keys == [f"high {key}" for key in range(20)] + [f"low {key}" for key in range(20)]
    queue.add("low", priority=0)
    await asyncio.sleep(3.1)
    queue.add("high", priority=1)
    assert await take_all(queue) == ["low", "high"]


async def test_workers_never_share_a_key_and_all_of_them_are_used():
    queue, running, most, served = make(), Counter(), 0, Counter()

    async def run(key: object) -> None:
        nonlocal most
        running[key] += 1
        served[key] += 1
        assert running[key] == 1
        most = max(most, running.total())
        queue.add(key)
        await asyncio.sleep(1)
        running[key] -= 1

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(work(queue, run))
        for key in range(10):
            queue.add(key)
        await asyncio.sleep(100.5)
        queue.close()
    assert most == 4
    assert max(served.values()) - min(served.values()) <= 1
    assert served.total() == pytest.approx(4 * 100, abs=4)


@pytest.mark.parametrize("workers", [1, 3])
async def test_keys_that_requeue_themselves_at_once_do_not_deadlock(workers: int):
    queue, served = make(), Counter()

    async def run(key: object) -> None:
        served[key] += 1
        if served[key] < 50:
            queue.add(key)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work(queue, run))
        for key in range(100):
            queue.add(key)
        await idle(queue)
        queue.close()
    assert served == Counter(dict.fromkeys(range(100), 50))


async def test_a_low_key_is_served_within_the_ageing_bound_under_a_saturating_flow():
    queue = make(ageing=0.1)
    bound = -LOW_PRIORITY * 0.1
    queue.add("patient", priority=LOW_PRIORITY)
    for number in range(10_000):
        queue.add(number)
        async with taken(queue) as key:
            if key == "patient":
                break
            await asyncio.sleep(0.01)
    assert key == "patient"
    assert bound - 0.1 < now() <= bound + 0.02


async def test_work_that_has_begun_waits_for_no_thousand_new_keys():
    runs: Counter[int] = Counter()
    queue = make(begun=runs.__contains__)
    for key in range(1000):
        queue.add(key)
    order: list[int] = []
    while queue:
        async with taken(queue) as key:
            order.append(key)
            runs[key] += 1
            if runs[key] < 4:
                queue.add(key)
    assert order == [key for key in range(1000) for _ in range(4)]


async def test_a_new_key_has_each_fourth_turn_under_a_saturating_flow_of_begun_work():
    queue, order = make(begun=str.isupper), []
    for key in "ABCDEFGHabcde":
        queue.add(key)
    while "e" not in order:
        async with taken(queue) as key:
            order.append(key)
            if key.isupper():
                queue.add(key)
    assert "".join(order) == "ABCaDEFbGHAcBCDdEFGe"


async def test_a_failing_key_with_an_event_each_millisecond_is_bounded_by_the_floor():
    queue, runs = make(), []

    async def run(key: object) -> None:
        runs.append(now())
        await asyncio.sleep(0.01)
        queue.add_rate_limited(key)

    async with asyncio.TaskGroup() as group:
        group.create_task(work(queue, run))
        for _ in range(20_000):
            queue.add("a")
            await asyncio.sleep(0.001)
        queue.close()
    climbing = 9  # the delays below the floor: 5 ms to 1.28 s
    assert 20 - climbing <= len(runs) <= 20 + climbing
    waits = [after - before for before, after in pairwise(runs[climbing:])]
    assert waits == pytest.approx([1.01] * len(waits), abs=0.002)


async def test_duplicate_rate_limited_adds_delay_no_fresh_key():
    queue = make(clock=FakeClock(), backoff=Backoff(base=0.005, jitter=0))
    for _ in range(100_000):  # a token bucket of 10/s would now be three hours ahead
        queue.add_rate_limited("often")
    assert queue.add_rate_limited("fresh") == 0.005
    assert queue.statistics().delayed == 2
