from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from workqueue import Workers, WorkQueue


def make() -> WorkQueue[str]:
    return WorkQueue(clock=asyncio.get_running_loop(), rng=random.Random(1))


def workers(
    queue: WorkQueue[str], process: Callable[[str], Awaitable[None]], count: int, **options: Any
) -> Workers[str]:
    return Workers(queue, process, count, name="test", clock=asyncio.get_running_loop(), **options)


async def test_workers_carry_their_name_and_hold_by_default_however_long_a_run_takes():
    queue, names = make(), list[str]()

    async def process(key: str) -> None:
        names.append(asyncio.current_task().get_name())
        await asyncio.sleep(10)

    queue.add("a")
    queue.add("b")
    some = workers(queue, process, 1, patience=0.5)
    task = asyncio.create_task(some.run())
    await asyncio.sleep(5)
    assert names == ["test"]
    assert (some.busy, some.released) == (1, 0)
    queue.close()
    await task


async def test_an_exception_stops_all_workers_and_gives_the_key_back():
    queue = make()

    async def process(key: str) -> None:
        raise RuntimeError(key)

    queue.add("a")
    with pytest.raises(ExceptionGroup) as raised:
        await workers(queue, process, 2).run()
    assert raised.group_contains(RuntimeError, match="a")
    assert queue.statistics().processing == 0


async def test_a_run_that_ends_as_cancelled_takes_no_other_with_it():
    queue, seen = make(), list[str]()

    async def process(key: str) -> None:
        seen.append(key)
        if key == "a":
            raise asyncio.CancelledError

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(workers(queue, process, 2).run())
        for key in "abcd":
            queue.add(key)
        await asyncio.sleep(1)
        assert (sorted(seen), running.done()) == (list("abcd"), False)
        queue.close()


class Hanging:
    """Keys that begin with `h` hang for ten seconds, unless they are cured; others are quick."""

    def __init__(self) -> None:
        self.queue = make()
        self.cured = False
        self.began: list[tuple[str, float]] = []
        self.ended: list[str] = []

    async def process(self, key: str) -> None:
        self.began.append((key, asyncio.get_running_loop().time()))
        if key.startswith("h") and not self.cured:
            await asyncio.sleep(10)
        self.ended.append(key)

    def workers(self, *, limit: int = 100, count: int = 1) -> Workers[str]:
        return workers(self.queue, self.process, count, patience=0.5, limit=limit)

    def add(self, keys: str) -> None:
        for key in keys.split():
            self.queue.add(key)


async def test_a_worker_leaves_a_key_that_hangs_and_takes_the_next():
    fixture = Hanging()
    fixture.add("h1 h2 q")
    some = fixture.workers()
    task = asyncio.create_task(some.run())
    await asyncio.sleep(2)
    assert fixture.began == [("h1", 0.0), ("h2", 0.5), ("q", 1.0)]
    assert (some.busy, some.released) == (0, 2)
    assert fixture.queue.statistics().processing == 2
    await asyncio.sleep(10)
    assert (some.busy, some.released) == (0, 0)
    assert fixture.queue.statistics().processing == 0
    fixture.queue.close()
    await task


async def test_who_hung_the_last_time_gets_no_patience_until_one_run_is_quick():
    fixture = Hanging()
    fixture.add("h1 h2 h3")
    task = asyncio.create_task(fixture.workers().run())
    await asyncio.sleep(15)
    fixture.add("h1 h2 h3 q")
    await asyncio.sleep(1)
    assert fixture.began[3:] == [("h1", 15.0), ("h2", 15.0), ("h3", 15.0), ("q", 15.0)]
    await asyncio.sleep(14)
    fixture.cured = True
    fixture.add("h1 h2 h3")
    await asyncio.sleep(1)
    fixture.cured = False
    fixture.add("h1 q")
    await asyncio.sleep(1)
    assert fixture.began[-2:] == [("h1", 31.0), ("q", 31.5)], "it was quick in between"
    fixture.queue.close()
    await task


async def test_when_too_many_hang_workers_wait():
    fixture = Hanging()
    fixture.add("h1 h2 h3 q")
    some = fixture.workers(limit=2)
    task = asyncio.create_task(some.run())
    await asyncio.sleep(5)
    assert (some.busy, some.released) == (1, 2)
    assert [key for key, _ in fixture.began] == ["h1", "h2", "h3"]
    await asyncio.sleep(7)
    assert fixture.began[-1] == ("q", 11.0)
    fixture.queue.close()
    await task


async def test_the_end_waits_for_runs_without_a_worker_and_a_cancellation_ends_them():
    fixture = Hanging()
    fixture.add("h1 h2")
    task = asyncio.create_task(fixture.workers().run())
    await asyncio.sleep(2)
    fixture.queue.close()
    await asyncio.sleep(8.2)
    assert not task.done()
    assert fixture.ended == ["h1"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert fixture.ended == ["h1"]
    assert fixture.queue.statistics().processing == 0


async def test_slow_keys_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("workqueue.workers._MOST_REMEMBERED", 3)
    fixture = Hanging()
    fixture.add(" ".join(f"h{number}" for number in range(8)))
    some = fixture.workers()
    task = asyncio.create_task(some.run())
    await asyncio.sleep(20)
    assert list(some._slow) == ["h5", "h6", "h7"]
    fixture.queue.close()
    await task
