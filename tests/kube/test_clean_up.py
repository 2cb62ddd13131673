"""A time limit in a task that has been cancelled."""

from __future__ import annotations

import asyncio

import pytest

from controller.kube.http import ends_within
from tests.fakes.clean_up import ends_in_a_cancelled_task


async def test_work_that_takes_too_long_is_cancelled_at_the_limit():
    began = asyncio.get_running_loop().time()
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.set()

    assert not await ends_within(2, work())
    assert asyncio.get_running_loop().time() - began == pytest.approx(2)
    assert ended.is_set()


async def test_a_limit_holds_in_a_task_that_has_been_cancelled():
    results: list[bool] = []

    async def clean_up() -> None:
        results.append(await ends_within(2, asyncio.sleep(100)))

    assert await ends_in_a_cancelled_task(clean_up())
    assert results == [False]
