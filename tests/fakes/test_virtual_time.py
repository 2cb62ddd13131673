"""Virtual time: the tests of all else believe in its order."""

from __future__ import annotations

import asyncio
import threading

import pytest

from controller.testing.virtual_time import DeadlockError, VirtualLoop, run

DAY = 24 * 3600


def test_of_timers_at_the_same_time_the_one_set_first_is_due_first_whatever_was_cancelled():
    due = list[int]()

    async def play() -> None:
        loop = asyncio.get_running_loop()
        cancelled = [loop.call_later(0.5, print) for _ in range(150)]
        for number in range(200):
            loop.call_later(1.0, due.append, number)
        for timer in cancelled:
            timer.cancel()
        await asyncio.sleep(2)

    run(play())
    assert due == list(range(200))


async def test_a_timer_one_tick_after_another_is_not_early_either():
    """Whoever waits for the rest of his delay would do so for ever: the clock stands still."""
    loop, seen = asyncio.get_running_loop(), list[bool]()
    for ticks in range(1, 100):
        loop.call_at(ticks * 1e-6, lambda due=ticks * 1e-6: seen.append(loop.time() >= due))
    await asyncio.sleep(1)
    assert seen == [True] * 99


async def test_the_clock_is_exact_after_years():
    loop = asyncio.get_running_loop()
    await asyncio.sleep(1000 * DAY)
    await asyncio.sleep(1e-6)
    assert loop.time() == 86_400_000.000001
    loop.block(2.5)
    assert loop.time() == 86_400_002.500001


def test_who_waits_for_what_never_comes_fails_at_once():
    with pytest.raises(DeadlockError, match="sockets"):
        run(asyncio.Event().wait())


async def test_what_would_run_in_a_thread_runs_at_once_and_takes_no_time():
    loop, found = asyncio.get_running_loop(), list[int]()
    await asyncio.to_thread(lambda: found.append(threading.get_ident()))
    assert (found, loop.time()) == ([threading.get_ident()], 0.0)
    with pytest.raises(ZeroDivisionError):
        await loop.run_in_executor(None, lambda: 1 / 0)


async def test_another_thread_cannot_call_into_virtual_time():
    loop, refused = asyncio.get_running_loop(), list[str]()
    assert isinstance(loop, VirtualLoop)

    def call() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except RuntimeError as error:
            refused.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert refused == ["virtual time knows no other threads"]
