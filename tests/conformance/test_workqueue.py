"""The guarantees of upstream's queues, and what they lack."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from tests.workqueue.fakes import FakeClock, taken
from workqueue import Closed, WorkQueue
from workqueue.prometheus import QueueCollector


def make(**options) -> WorkQueue:
    options.setdefault("clock", asyncio.get_running_loop())
    options.setdefault("rng", random.Random(1))
    return WorkQueue(**options)


def now() -> float:
    return asyncio.get_running_loop().time()


async def take_all(queue: WorkQueue) -> list:
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


class Scrape:
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
