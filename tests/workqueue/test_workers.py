from __future__ import annotations

import asyncio
import random

import pytest

from workqueue import WorkQueue, run_workers


def make() -> WorkQueue[str]:
    return WorkQueue(clock=asyncio.get_running_loop(), rng=random.Random(1))


async def test_as_many_keys_are_processed_at_once_as_there_are_workers():
    queue, in_flight, most = make(), 0, 0

    async def process(key: str) -> None:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await asyncio.sleep(1)
        in_flight -= 1

    for key in "abcde":
        queue.add(key)
    workers = asyncio.create_task(run_workers(queue, process, 2, name="test"))
    await queue.drain()
    await workers
    assert most == 2


async def test_workers_end_when_the_queue_is_closed_and_the_keys_in_flight_are_processed():
    queue, processed = make(), list[str]()

    async def process(key: str) -> None:
        await asyncio.sleep(1)
        processed.append(key)

    queue.add("a")
    workers = asyncio.create_task(run_workers(queue, process, 1, name="test"))
    await asyncio.sleep(0.5)
    queue.add("b")
    queue.close()
    await workers
    assert processed == ["a"]


async def test_an_exception_stops_all_workers_and_gives_the_key_back():
    queue = make()

    async def process(key: str) -> None:
        raise RuntimeError(key)

    queue.add("a")
    with pytest.raises(ExceptionGroup) as raised:
        await run_workers(queue, process, 2, name="test")
    assert raised.group_contains(RuntimeError, match="a")
    assert queue.statistics().processing == 0
