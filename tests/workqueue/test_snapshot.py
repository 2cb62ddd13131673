"""A snapshot of a queue: its oldest keys, and never more of them than were asked for."""

from __future__ import annotations

import asyncio
import random

from tests.workqueue.fakes import taken
from workqueue import Backoff, FailingKey, RunningKey, WorkQueue

STEADY = Backoff(base=10.0, cap=10.0, jitter=0.0)


def queue() -> WorkQueue[str]:
    return WorkQueue(clock=asyncio.get_running_loop(), rng=random.Random(1), backoff=STEADY)


async def fail(keys: WorkQueue[str], key: str) -> None:
    keys.add(key)
    async with taken(keys) as key_taken:
        assert key_taken == key
        keys.add_rate_limited(key)


async def test_failing_keys_are_shown_with_their_first_failure_and_next_run():
    keys = queue()
    await fail(keys, "z")
    await asyncio.sleep(2)
    await fail(keys, "b")
    seen = keys.snapshot(10)
    assert seen.failing == (FailingKey("z", 1, 2.0, 8.0), FailingKey("b", 1, 0.0, 10.0))
    assert (seen.statistics.failing, seen.running) == (2, ())
    assert keys.snapshot(1).failing == seen.failing[:1]
    await asyncio.sleep(8)
    assert [each.due for each in keys.snapshot(10).failing] == [0.0, 2.0], "one is due now"
    await asyncio.sleep(1.5)
    assert [each.due for each in keys.snapshot(10).failing] == [0.0, 0.5]


async def test_running_keys_are_shown_with_the_oldest_run_first():
    keys = queue()
    keys.add("z")
    async with taken(keys):
        await asyncio.sleep(2)
        keys.add("b")
        async with taken(keys):
            assert keys.snapshot(10).running == (RunningKey("z", 2.0), RunningKey("b", 0.0))
            assert keys.snapshot(1).running == (RunningKey("z", 2.0),)


async def test_a_key_that_fails_again_fails_since_the_first_time_until_it_is_forgotten():
    keys = queue()
    await fail(keys, "a")
    await asyncio.sleep(20)
    async with taken(keys) as key:
        assert keys.snapshot(10).failing == (FailingKey("a", 1, 20.0, None),)
        assert keys.snapshot(10).running == (RunningKey("a", 0.0),)
        keys.add_rate_limited(key)
    assert keys.snapshot(10).failing == (FailingKey("a", 2, 20.0, 10.0),)
    keys.forget("a")
    assert keys.snapshot(10).failing == ()
