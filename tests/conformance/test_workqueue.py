"""The guarantees of upstream's queues, and what they lack."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from tests.workqueue.fakes import FakeClock, about, taken
from workqueue import LOW_PRIORITY, Backoff, Closed, WorkQueue
from workqueue.backoff import Failures
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


async def test_a_key_added_while_processing_runs_once_more():
    queue, runs = make(), []

    async def run(key: object) -> None:
        runs.append(key)
        if len(runs) == 1:
            queue.add(key)
        await asyncio.sleep(1)

    async with asyncio.TaskGroup() as group:
        group.create_task(work(queue, run))
        group.create_task(work(queue, run))
        queue.add("a")
        await asyncio.sleep(10)
        queue.close()
    assert runs == ["a", "a"]


async def test_length_counts_distinct_keys():
    queue = make()
    for expected, key in [(1, "a"), (2, "b"), (2, "a"), (3, "c"), (3, "c")]:
        queue.add(key)
        assert len(queue) == expected


async def test_a_key_added_in_flight_shows_when_done_and_then_once():
    queue = make()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await take_all(queue) == ["a"]
    assert len(queue) == 0


async def test_many_adds_are_one_hand_out_also_behind_a_run():
    queue = make()
    for _ in range(5):
        queue.add("a")
    assert len(queue) == 1
    key = await queue.get()
    for _ in range(5):
        queue.add("a")
    queue.done(key)
    assert await take_all(queue) == ["a"]
    assert await take_all(queue) == []


async def test_drain_returns_only_when_all_in_flight_are_done():
    queue = make()
    queue.add("a")
    queue.add("b")
    await queue.get()
    await queue.get()
    draining = asyncio.create_task(queue.drain())
    await turns()
    queue.done("a")
    await turns()
    assert not draining.done()
    queue.done("b")
    assert await draining == set()


async def test_close_returns_with_work_in_flight():
    queue = make()
    queue.add("a")
    await queue.get()
    queue.close()
    assert queue.statistics().processing == 1
    with pytest.raises(Closed):
        await queue.get()
    queue.done("a")


async def test_close_interrupts_a_drain():
    queue = make()
    for key in "abc":
        queue.add(key)
    await queue.get()
    draining = asyncio.create_task(queue.drain())
    await turns()
    assert not draining.done()
    queue.close()
    assert await draining == {"a", "b", "c"}


async def test_a_dirty_key_in_flight_runs_again_before_drain_ends():
    queue = make()
    queue.add("a")
    await queue.get()
    queue.add("a")
    draining = asyncio.create_task(queue.drain())
    idle = asyncio.create_task(queue.get())
    await turns()
    assert not idle.done(), "a getter gave up although a second run was due"
    queue.done("a")
    assert await idle == "a"
    assert not draining.done()
    queue.done("a")
    assert await draining == set()


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


async def test_a_delayed_key_is_ready_at_its_time_and_once():
    queue = make()
    queue.add_after("a", 50)
    await asyncio.sleep(49.999)
    assert len(queue) == 0
    await asyncio.sleep(0.002)
    assert await take_all(queue) == ["a"]
    await asyncio.sleep(1000)
    assert len(queue) == 0


async def test_earliest_of_two_delays_wins_and_a_fired_key_is_free():
    queue = make()
    queue.add_after("later ignored", 50)
    queue.add_after("later ignored", 70)
    queue.add_after("earlier wins", 70)
    queue.add_after("earlier wins", 50)
    await asyncio.sleep(49)
    assert len(queue) == 0
    await asyncio.sleep(2)
    assert sorted(await take_all(queue)) == ["earlier wins", "later ignored"]
    await asyncio.sleep(100)
    assert len(queue) == 0
    queue.add_after("earlier wins", 10)
    await asyncio.sleep(11)
    assert await take_all(queue) == ["earlier wins"]


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


async def test_back_off_doubles_by_key_until_forgotten():
    queue = make(backoff=NO_JITTER)
    ladder = [queue.add_rate_limited("a") for _ in range(5)]
    assert ladder == pytest.approx([0.001, 0.002, 0.004, 0.008, 0.016])
    assert [queue.add_rate_limited("b") for _ in range(2)] == pytest.approx([0.001, 0.002])
    assert (queue.num_requeues("a"), queue.num_requeues("b")) == (5, 2)
    queue.forget("a")
    assert (queue.num_requeues("a"), queue.num_requeues("b")) == (0, 2)
    assert queue.add_rate_limited("a") == pytest.approx(0.001)


def test_a_huge_number_of_failures_gives_the_cap():
    backoff = Backoff(base=0.001, cap=300.0)
    assert backoff.delay(1000) == backoff.delay(10**9) == 300.0
    keys = Failures(backoff, random.Random(1), floor=1.0)
    assert all(0 < keys.record("a", 0.0) <= 360.0 for _ in range(2000))


async def test_curves_are_composed_by_functions_of_the_number_of_failures():
    class FastThenSlow(Backoff):
        def delay(self, failures: int) -> float:
            return 0.005 if failures < 3 else 10.0

    class Longest(Backoff):
        def delay(self, failures: int) -> float:
            return max(super().delay(failures), FastThenSlow().delay(failures))

    def ladder(backoff: Backoff) -> list[float]:
        queue = make(backoff=backoff)
        return [queue.add_rate_limited("a") for _ in range(5)]

    assert ladder(FastThenSlow(jitter=0)) == [0.005, 0.005, 0.005, 10.0, 10.0]
    assert ladder(Longest(base=1.0, jitter=0)) == [1.0, 2.0, 4.0, 10.0, 16.0]
    assert ladder(Backoff(base=1.0, cap=3.0, jitter=0)) == [1.0, 2.0, 3.0, 3.0, 3.0]


async def test_back_off_feeds_the_delays():
    queue = make(backoff=Backoff(base=4.0, jitter=0), floor=100.0)
    for expected in (4.0, 8.0, 16.0):
        queue.add("a")
        async with taken(queue) as key:
            started = now()
            assert queue.add_rate_limited(key) == expected
        async with taken(queue) as key:
            assert now() - started == about(expected)
    assert queue.num_requeues("a") == 3
    queue.forget("a")
    assert queue.num_requeues("a") == 0


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


async def test_keyed_back_off_climbs_is_reset_when_old_and_jittered():
    backoff = Backoff(base=1.0, cap=60.0, jitter=0)
    keys = Failures(backoff, random.Random(1), floor=1.0)
    assert [keys.record("a", 0.0) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert keys.held_until("a") == 1.0
    assert keys.record("a", 119.0) == 60, "a failure younger than twice the cap counts"
    assert keys.record("a", 119.0 + 121.0) == 1, "an older one does not"
    keys.record("b", 400.0)
    assert (len(keys), keys.count("a")) == (1, 0), "old keys are collected"

    jittered = Failures(Backoff(base=1.0, jitter=0.2), random.Random(1), floor=1.0)
    first = {jittered.record(str(key), 0.0) for key in range(200)}
    assert len(first) == 200
    assert all(1.0 <= delay < 1.2 for delay in first)


async def test_one_place_for_each_key_first_come_first_served():
    queue = make()
    for key in ["foo", "bar", "foo", "bar", "baz"]:
        queue.add(key)
    assert len(queue) == 3
    assert await take_all(queue) == ["foo", "bar", "baz"]


async def test_a_key_in_flight_is_held_back_alone_and_ready_when_done():
    queue = make()
    queue.add("held", priority=5)
    held = await queue.get()
    queue.add("held", priority=5)
    queue.add("other")
    assert await queue.get() == "other"
    getter = asyncio.create_task(queue.get())
    await turns()
    assert not getter.done()
    queue.done(held)
    assert await getter == "held"


async def test_the_highest_priority_asked_for_wins():
    queue = make()
    for priority in (1, 5, 3):
        queue.add("a", priority=priority)
    queue.add("b", priority=4)
    assert await queue.get() == "a"
    assert queue.priority_of("a") == 5
    assert await queue.get() == "b"


async def test_a_raised_key_overtakes():
    queue = make()
    for key in ("a", "b", "c"):
        queue.add(key)
    queue.add("c", priority=1)
    assert await take_all(queue) == ["c", "a", "b"]


async def test_the_earliest_time_asked_for_wins():
    queue = make()
    for delay in (60, 10, 30):
        queue.add_after("a", delay)
    async with taken(queue):
        assert now() == about(10)


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


async def test_a_getter_is_released_at_shutdown():
    queue = make()
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await turns()
    queue.close()
    results = await asyncio.gather(*getters, return_exceptions=True)
    assert [type(result) for result in results] == [Closed] * 3


async def test_inside_a_class_raised_keys_come_in_the_order_of_raising():
    queue = make()
    for key in ("a", "b", "c"):
        queue.add(key)
    await asyncio.sleep(1)
    queue.add("c", priority=10)
    queue.add("d", priority=10)
    await asyncio.sleep(1)
    queue.add("a", priority=10)
    assert await take_all(queue) == ["c", "d", "a", "b"]


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


@pytest.mark.parametrize("seed", range(3))
async def test_fuzz(seed: int):
    rng, queue = random.Random(seed), make(backoff=Backoff(cap=0.05))
    held: set[int] = set()
    asked: defaultdict[int, list[int]] = defaultdict(list)

    async def run(key: object) -> None:
        assert isinstance(key, int)
        assert key not in held
        held.add(key)
        assert queue.priority_of(key) == max(asked.pop(key))
        assert all(count > 0 for count in queue.statistics().dirty.values())
        await asyncio.sleep(rng.random() / 50)
        held.discard(key)

    async def produce() -> None:
        for _ in range(100):
            key, priority = rng.randrange(40), rng.randrange(-5, 5)
            asked[key].append(priority)
            match rng.randrange(3):
                case 0:
                    queue.add(key, priority=priority)
                case 1:
                    queue.add_after(key, rng.random() / 50, priority=priority)
                case _:
                    queue.add_rate_limited(key, priority=priority)
            await asyncio.sleep(rng.random() / 100)

    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(work(queue, run))
        await asyncio.gather(*(produce() for _ in range(10)))
        await asyncio.sleep(1)
        assert asked == {}, "keys were asked for and never handed out"
        await queue.drain()


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


async def test_a_delayed_key_is_handed_out_neither_early_nor_late():
    queue, rng = make(), random.Random(3)
    due = {key: now() + rng.random() * 100 for key in range(200)}
    for key, when in due.items():
        queue.add_after(key, when - now())
    for _ in due:
        async with taken(queue) as key:
            assert now() == about(due[key])


async def test_a_high_key_that_becomes_ready_precedes_a_low_one():
    queue = make()
    queue.add("low", priority=LOW_PRIORITY)
    queue.add_after("high", 1)
    await asyncio.sleep(1.001)
    assert await take_all(queue) == ["high", "low"]


async def test_an_immediate_add_promotes_the_waiting_key_to_a_single_run():
    queue = make()
    queue.add_after("a", 60)
    queue.add("a")
    assert await take_all(queue) == ["a"]
    await asyncio.sleep(600)
    assert len(queue) == 0


@pytest.mark.parametrize("ending", ["close", "drain"])
async def test_shutdown_while_handing_out_does_not_deadlock(ending: str):
    for delay in range(6):
        queue = make()
        getters = [asyncio.create_task(queue.get()) for _ in range(3)]
        await turns()
        queue.add("a")
        await turns(delay)
        if ending == "close":
            queue.close()
        else:
            ended = asyncio.create_task(queue.drain())
        outcomes = []
        for getter in getters:
            try:
                key = await getter
            except Closed:
                outcomes.append("closed")
            else:
                queue.done(key)
                outcomes.append(key)
        if ending == "drain":
            assert await ended == set()
            assert "a" in outcomes
        assert outcomes.count("closed") >= 2


async def test_keys_that_are_rate_limited_together_do_not_affect_each_other():
    queue = make(backoff=NO_JITTER)
    assert [queue.add_rate_limited(key) for key in range(100)] == [0.001] * 100
    assert [queue.num_requeues(key) for key in range(100)] == [1] * 100


async def test_a_pending_key_is_kept_once_and_free_after_hand_out():
    queue = make()
    queue.add("a")
    key = await queue.get()
    queue.add_after("a", 1)
    queue.add_after("a", 2)
    await asyncio.sleep(3)
    assert len(queue) == 0
    queue.done(key)
    assert await take_all(queue) == ["a"]
    queue.add("a")
    assert await take_all(queue) == ["a"]


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


@pytest.mark.parametrize("cancelled_after", range(4))
async def test_a_cancelled_getter_loses_neither_wake_up_nor_key(cancelled_after: int):
    queue = make()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await turns()
    queue.add("a")
    await turns(cancelled_after)
    first.cancel()
    [outcome] = await asyncio.gather(first, return_exceptions=True)
    if outcome == "a":
        assert cancelled_after > 0
        queue.done("a")
        queue.add("a")
    async with asyncio.timeout(1):
        assert await second == "a"


async def test_drain_serves_what_is_queued_when_nothing_is_in_flight():
    queue, served = make(), []

    async def run(key: object) -> None:
        served.append(key)
        await asyncio.sleep(1)

    for key in range(5):
        queue.add(key)
    draining = asyncio.create_task(queue.drain())
    await turns()
    assert not draining.done()
    async with asyncio.TaskGroup() as group:
        group.create_task(work(queue, run))
        assert await draining == set()
    assert served == [0, 1, 2, 3, 4]


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
