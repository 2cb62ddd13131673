"""Timers of virtual time: the tests of all else believe in their order."""

from __future__ import annotations

import asyncio

from tests.virtual_time import VirtualLoop


def test_of_timers_at_the_same_time_the_one_set_first_is_due_first_whatever_was_cancelled():
    loop, due = VirtualLoop(), list[int]()

    async def play() -> None:
        cancelled = [loop.call_later(0.5, print) for _ in range(150)]
        for number in range(200):
            loop.call_later(1.0, due.append, number)
        for timer in cancelled:
            timer.cancel()
        await asyncio.sleep(2)

    loop.run_until_complete(play())
    loop.close()
    assert due == list(range(200))


async def test_a_timer_one_tick_after_another_is_not_early_either():
    """Whoever waits for the rest of his delay would do so for ever: the clock stands still."""
    loop, seen = asyncio.get_running_loop(), list[bool]()
    for ticks in range(1, 100):
        loop.call_at(ticks * 1e-6, lambda due=ticks * 1e-6: seen.append(loop.time() >= due))
    await asyncio.sleep(1)
    assert seen == [True] * 99
