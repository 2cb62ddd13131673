"""Throughput of the work queue: keys a second on one core, with ten thousand keys in it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from workqueue import WorkQueue

KEYS = [f"namespace/cluster-{number}" for number in range(10_000)]
WORKERS = 10


async def add_get_done(queue: WorkQueue[str]) -> int:
    """Ten workers take every key and give it back."""

    async def work() -> None:
        for _ in range(len(KEYS) // WORKERS):
            queue.done(await queue.get())

    for key in KEYS:
        queue.add(key)
    await asyncio.gather(*(work() for _ in range(WORKERS)))
    return len(KEYS)


async def duplicates(queue: WorkQueue[str]) -> int:
    """Every key is added ten times."""
    for _ in range(10):
        for key in KEYS:
            queue.add(key)
    return 10 * len(KEYS)


async def add_after(queue: WorkQueue[str]) -> int:
    """Every key gets a delay, and five times an earlier one."""
    for delay in range(100, 94, -1):
        for key in KEYS:
            queue.add_after(key, delay)
    return 6 * len(KEYS)


async def back_off(queue: WorkQueue[str]) -> int:
    """Every key fails six times, then succeeds."""
    for _ in range(6):
        for key in KEYS:
            queue.add_rate_limited(key)
    for key in KEYS:
        queue.forget(key)
    return 7 * len(KEYS)


async def _rate(scenario: Callable[[WorkQueue[str]], Awaitable[int]]) -> float:
    queue: WorkQueue[str] = WorkQueue(clock=asyncio.get_running_loop(), rng=random.Random(1))
    started = time.perf_counter()
    operations = await scenario(queue)
    seconds = time.perf_counter() - started
    queue.close()
    return operations / seconds


def run() -> dict[str, float]:
    """Return operations a second by scenario, the best of three."""
    return {
        f"{scenario.__name__.replace('_', ' ')}, operations/s": max(
            asyncio.run(_rate(scenario)) for _ in range(3)
        )
        for scenario in (add_get_done, duplicates, add_after, back_off)
    }


if __name__ == "__main__":
    for scenario, rate in run().items():
        print(f"{scenario:<34}{rate:>12,.0f}")
