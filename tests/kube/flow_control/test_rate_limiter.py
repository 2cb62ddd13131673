"""The limit of requests a second."""

from __future__ import annotations

import asyncio

import pytest

from controller.kube.errors import NotSent
from controller.kube.limits import RateLimiter


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
