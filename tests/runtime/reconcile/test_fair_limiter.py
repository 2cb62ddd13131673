"""Slots are given to owners in turn: who asks for much delays nobody who asks for little."""

from __future__ import annotations

import asyncio
import random

from controller.runtime.expectations.owners import Owner
from controller.runtime.reconcile.fair_limiter import MAX_SHARE, FairLimiter
from controller.runtime.reconcile.writer import Writer
from tests.runtime.kit import OWNER, Book, Call, ScriptedClient, create

SLOTS = 64


async def hold(turns: FairLimiter, owner: str, order: list[str]) -> None:
    async with turns.take(owner):
        order.append(owner)
        await asyncio.sleep(1)


async def test_owners_that_wait_get_slots_in_turn():
    turns, order = FairLimiter(1), list[str]()
    async with asyncio.TaskGroup() as group:
        for owner in "aaaabbc":
            group.create_task(hold(turns, owner, order))
    assert order == [*"aabcaba"]


async def test_no_more_are_held_than_there_are_slots():
    turns, began = FairLimiter(3), asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(hold(turns, f"owner {number}", []))
    assert asyncio.get_running_loop().time() - began == 4


async def test_the_last_slots_are_for_owners_that_hold_few():
    turns, order = FairLimiter(40), list[str]()
    tasks = [asyncio.create_task(hold(turns, big, order)) for big in "abcdef" * 10]
    await asyncio.sleep(0.5)
    assert len(order) == 40 - 40 // MAX_SHARE, "all but the reserve"
    tasks += [asyncio.create_task(hold(turns, small, order)) for small in "xyz"]
    await asyncio.sleep(0)
    assert order[-3:] == ["x", "y", "z"], "they need not wait"
    await asyncio.gather(*tasks)
    assert len(order) == 63


async def test_nobody_holds_more_than_a_share():
    turns, order = FairLimiter(40), list[str]()
    tasks = [asyncio.create_task(hold(turns, "big", order)) for _ in range(10)]
    await asyncio.sleep(0.5)
    assert len(order) == 40 // MAX_SHARE
    await asyncio.gather(*tasks)
    assert len(order) == 10


async def test_all_slots_come_free_again():
    turns = FairLimiter(10)
    for _ in range(3):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(hold(turns, f"{n % 7}", [])) for n in range(40)]
            await asyncio.sleep(0.5)
            tasks[35].cancel()
    began = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(hold(turns, f"owner {number}", []))
    assert asyncio.get_running_loop().time() - began == 1


async def test_a_slot_is_not_lost_with_whoever_waited_for_it():
    turns, order = FairLimiter(1), list[str]()
    tasks = [asyncio.create_task(hold(turns, owner, order)) for owner in "abc"]
    await asyncio.sleep(0.5)
    tasks[1].cancel()  # while it waits
    await asyncio.sleep(0.499)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["a", "c"]

    async with turns.take("d"):
        waiting = asyncio.create_task(hold(turns, "e", order))
        await asyncio.sleep(0)
    waiting.cancel()  # in the moment in which it is given the slot
    await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(0.1), turns.take("f"):
        pass


async def test_bug_80_owners_with_long_queues_delay_nobody_else():
    """Five with 300 writes each; a sixth makes ten, one after the other."""
    alone = await seconds_of_ten_writes(crowd=0)
    assert await seconds_of_ten_writes(crowd=5) < 2 * alone


async def seconds_of_ten_writes(*, crowd: int) -> float:
    book, client, rng = Book(), ScriptedClient(seconds=0.02), random.Random(1)
    writer = Writer(client, book.expectations, concurrency=SLOTS)
    others = [Owner(f"uid-{n}", f"default/{n}", OWNER.controller) for n in range(crowd)]

    def lasting(call: Call):
        client.seconds = rng.uniform(0.01, 0.03)
        return client.serve(call)

    client.script = lasting
    async with asyncio.TaskGroup() as group:
        for owner in others:
            book.expectations.add_owner(owner)
            for number in range(300):
                name = f"{owner.uid}-{number}"
                group.create_task(writer.perform(owner, create(name, owner=owner.uid)))
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(10):
            await writer.perform(OWNER, create(f"mine-{number}"))
        ended = loop.time()
    assert client.most <= SLOTS
    return ended - began
