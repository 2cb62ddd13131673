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
