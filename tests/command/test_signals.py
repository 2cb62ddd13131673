"""Being told to stop while something is still being prepared or watched."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from controller.command.process import INTERRUPTED, interruptible, unless_stopped


async def test_work_that_ends_before_a_stop_gives_its_result():
    stop = asyncio.Event()

    async def work() -> str:
        await asyncio.sleep(1)
        return "done"

    assert await unless_stopped(stop, work()) == "done"


async def test_work_that_fails_before_a_stop_fails():
    async def work() -> str:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await unless_stopped(asyncio.Event(), work())


async def test_a_stop_cancels_work_and_waits_until_it_has_cleaned_up():
    stop, cleaned = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            cleaned.set()
        return "never"

    asyncio.get_running_loop().call_later(1, stop.set)
    assert await unless_stopped(stop, work()) is None
    assert cleaned.is_set()


@pytest.mark.real_time
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_cancels_what_is_watched_and_lets_it_clean_up(number: signal.Signals):
    cleaned = asyncio.Event()

    async def work() -> int:
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return 0

    assert await interruptible(work()) == INTERRUPTED
    assert cleaned.is_set()
