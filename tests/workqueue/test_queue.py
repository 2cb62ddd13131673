from __future__ import annotations

import asyncio
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workqueue.fakes import FakeClock, about, taken
from workqueue import LOW_PRIORITY, Closed, QueueRecorder, QueueStatistics, WorkQueue
from workqueue.queue import AGEING


def make(**options) -> WorkQueue:
    options.setdefault("clock", asyncio.get_running_loop())
    options.setdefault("rng", random.Random(1))
    return WorkQueue(**options)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# Taking and giving back


async def test_a_block_gives_its_key_back_whatever_happens_in_it():
    queue = make()
    queue.add("a")
    with pytest.raises(RuntimeError):
        async with taken(queue):
            raise RuntimeError
    queue.add("a")
    async with asyncio.timeout(1), taken(queue) as key:
        assert key == "a"

    queue.add("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1), taken(queue):
            await asyncio.sleep(60)
    assert queue.statistics().processing == 0


async def test_done_of_a_key_that_is_not_in_flight_is_refused_and_harmless():
    queue = make()
    queue.add("a")
    with pytest.raises(ValueError, match=r"^'a' is not in flight$"):
        queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    with pytest.raises(ValueError, match="'a' is not in flight"):
        queue.done("a")
    assert queue.statistics() == QueueStatistics(0, {}, 0, 0, 0, 0.0, 0.0)


async def test_a_worker_that_awaits_nothing_else_leaves_the_loop_to_others():
    queue, ended = make(), False

    async def be_busy() -> None:
        while not ended:
            async with taken(queue) as key:
                queue.add(key)

    queue.add("hot")
    busy = asyncio.create_task(be_busy())
    await turns(20)
    ended = True
    await busy


# Priorities


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 30),  # seconds since the last one
        st.integers(-10, 10),  # priority
        st.integers(0, 3),  # keys taken afterwards
    ),
    max_size=40,
)


@settings(derandomize=True, deadline=None)
@given(ARRIVALS)
def test_nobody_is_overtaken_by_who_comes_after_the_bound(arrivals):
    """A key of priority p, ready since r, is overtaken by none ready after r + (q-p) * AGEING."""

    async def scenario() -> None:
        clock = FakeClock()
        queue = make(clock=clock)
        ready: dict[int, tuple[float, int]] = {}

        async def take() -> None:
            taken = await queue.get()
            since, priority = ready.pop(taken)
            for other_since, other_priority in ready.values():
                assert since <= other_since + (priority - other_priority) * AGEING
            queue.done(taken)

        for key, (seconds, priority, takes) in enumerate(arrivals):
            clock.advance(seconds)
            queue.add(key, priority=priority)
            ready[key] = (clock.now, priority)
            for _ in range(min(takes, len(queue))):
                await take()
        while ready:
            await take()

    asyncio.run(scenario())


# Delays


async def test_a_delay_must_be_a_number():
    queue = make()
    with pytest.raises(ValueError, match=r"^a delay must be a number of seconds$"):
        queue.add_after("a", math.nan)
    assert queue.statistics().delayed == 0


class Counts(QueueRecorder):
    def __init__(self) -> None:
        self.adds = 0
        self.retries = 0

    def recorder(self, name: str, snapshot: object) -> QueueRecorder:
        return self

    def added(self) -> None:
        self.adds += 1

    def retried(self) -> None:
        self.retries += 1


@pytest.mark.parametrize("asked", ["before", "after"])
async def test_a_key_that_is_held_runs_once_when_the_time_is_over_and_counts_once(asked: str):
    counts = Counts()
    queue = make(name="q", metrics=counts)
    queue.add("a")
    async with taken(queue):
        if asked == "before":
            queue.add("a")
        queue.hold("a", 3.0)
        for _ in range(5):
            queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    async with taken(queue):
        assert asyncio.get_running_loop().time() == about(3.0)
    assert (counts.adds, counts.retries) == (3 if asked == "before" else 2, 0)
    assert queue._held == {}, "to be handed out ends the hold"
    queue.add("a")
    assert len(queue) == 1


async def test_of_two_holds_the_last_one_counts_and_none_brings_a_delay_forward():
    queue = make()
    for key, delay, second, at in ("a", 0.0, 0.0, 0.0), ("b", 0.0, 2.0, 2.0), ("c", 9.0, 2.0, 9.0):
        began = asyncio.get_running_loop().time()
        queue.add(key)
        async with taken(queue):
            queue.hold(key, 3.0)
            queue.add_after(key, delay)
            queue.hold(key, second)
            queue.add_after(key, delay)
        async with taken(queue):
            assert asyncio.get_running_loop().time() - began == about(at)


async def test_a_hold_of_no_time_holds_nothing_back():
    queue = make(clock=FakeClock())
    queue.add("a")
    async with taken(queue):
        queue.add("a")
        queue.hold("a", 0)
    assert len(queue) == 1


async def test_a_hold_that_ends_when_the_key_is_due_does_not_cost_its_turn():
    clock = FakeClock()
    queue = make(clock=clock)
    queue.add("first")
    async with taken(queue):
        queue.add_after("first", 1)
        queue.add_after("second", 1)
        queue.hold("first", 1)
    clock.advance(1)
    assert [await queue.get() for _ in range(2)] == ["first", "second"]


# Closing


async def test_a_closed_queue_drops_what_is_queued_and_lets_runs_end():
    queue = make()
    for key in ("stuck", "queued"):
        queue.add(key)
    assert await queue.get() == "stuck"
    queue.add("stuck")
    queue.add_after("delayed", 5)
    queue.close()
    queue.add("late")
    with pytest.raises(Closed):
        await queue.get()
    queue.done("stuck")
    assert len(queue) == 0


# Looking at it


async def test_a_wait_is_never_negative_though_the_clock_calls_early():
    class Waits(QueueRecorder):
        def started(self, waited: float, /) -> None:
            waits.append(waited)

    class Metrics:
        def recorder(self, name: str, snapshot: object) -> QueueRecorder:
            return Waits()

    waits: list[float] = []
    clock = FakeClock(early=1e-6)
    queue = make(name="q", clock=clock, metrics=Metrics())
    queue.add_after("a", 1)
    clock.advance(1)
    clock.now -= 1e-6  # the moment of the call
    await queue.get()
    assert waits == [0.0]


async def test_statistics_tell_all_of_one_moment():
    queue = make()
    queue.add("running")
    await queue.get()
    await asyncio.sleep(2)
    queue.add("also running")
    await queue.get()
    await asyncio.sleep(3)
    queue.add("running", priority=1)
    queue.add("ready")
    queue.add("low", priority=LOW_PRIORITY)
    queue.add_after("delayed", 10)
    queue.add_rate_limited("failing")
    assert queue.statistics() == QueueStatistics(
        ready=2,
        dirty={1: 1, 0: 1, LOW_PRIORITY: 1},
        delayed=2,
        processing=2,
        failing=1,
        unfinished=about(8),
        longest_running=about(5),
    )
