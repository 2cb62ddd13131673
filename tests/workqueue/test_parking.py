from __future__ import annotations

import asyncio

import pytest

from workqueue.waiting import ParkingLot


async def parked(lot: ParkingLot, count: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(lot.park()) for _ in range(count)]
    await asyncio.sleep(0)
    assert len(lot) == count
    return tasks


async def awake(tasks: list[asyncio.Task[None]]) -> list[int]:
    await asyncio.sleep(0)
    return [n for n, task in enumerate(tasks) if task.done() and not task.cancelled()]


async def cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_longest_sleeper_wakes_first():
    lot = ParkingLot()
    tasks = await parked(lot, 3)
    lot.unpark_one()
    assert await awake(tasks) == [0]
    lot.unpark_one()
    assert await awake(tasks) == [0, 1]
    await cancel(tasks)


async def test_all_sleepers_wake():
    lot = ParkingLot()
    tasks = await parked(lot, 3)
    lot.unpark_all()
    assert await awake(tasks) == [0, 1, 2]
    lot.unpark_all()
    lot.unpark_one()


async def test_a_sleeper_cancelled_after_its_wake_up_passes_it_on():
    lot = ParkingLot()
    tasks = await parked(lot, 2)
    lot.unpark_one()
    tasks[0].cancel()
    await asyncio.sleep(0)
    assert await awake(tasks) == [1]
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]


async def test_a_sleeper_cancelled_before_any_wake_up_wakes_nobody():
    lot = ParkingLot()
    tasks = await parked(lot, 2)
    tasks[0].cancel()
    await asyncio.sleep(0)
    assert await awake(tasks) == []
    assert len(lot) == 1
    await cancel(tasks)
    assert len(lot) == 0


async def test_a_wake_up_is_not_spent_on_a_sleeper_whose_cancellation_is_under_way():
    lot = ParkingLot()
    tasks = await parked(lot, 2)
    tasks[0].cancel()
    lot.unpark_one()
    await asyncio.sleep(0)
    assert await awake(tasks) == [1]


async def test_a_sleeper_that_is_thrown_away_leaves_its_place():
    lot = ParkingLot()
    sleeper = lot.park()
    sleeper.send(None)
    sleeper.close()
    assert len(lot) == 0
