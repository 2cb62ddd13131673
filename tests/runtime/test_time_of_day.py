"""The time of day and the monotonic clock part, and that is noticed before anybody acts on it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from controller.runtime.manager import CLOCK_JUMP, Monitor, TimeOfDay
from controller.runtime.metrics import RuntimeMetrics


class _Wall:
    """A time of day that can be wrong."""

    def __init__(self) -> None:
        self.error = timedelta()
        self.jumps: list[tuple[float, datetime]] = []
        self.time_of_day = TimeOfDay(
            self, clock=asyncio.get_running_loop(), on_jump=self._note_jump
        )

    def __call__(self) -> datetime:
        passed = timedelta(seconds=asyncio.get_running_loop().time())
        return datetime(2026, 1, 1, tzinfo=UTC) + self.error + passed

    def _note_jump(self, seconds: float, now: datetime) -> None:
        self.jumps.append((round(seconds), now))


async def test_each_jump_is_reported_once_while_nobody_asks_for_the_time():
    wall = _Wall()
    metrics = RuntimeMetrics(CollectorRegistry(), version="1")
    clock = asyncio.get_running_loop()
    monitor = Monitor(metrics, clock=clock, time_of_day=wall.time_of_day)
    running = asyncio.create_task(monitor.run(lambda: None))
    for seconds in (0, CLOCK_JUMP - 1, 3600, 0):
        wall.error = timedelta(seconds=seconds)
        await asyncio.sleep(10)
    assert [seconds for seconds, _ in wall.jumps] == [3600, -3600]
    monitor.stop()
    await running


@pytest.mark.parametrize("seconds", [3600, -3600])
async def test_whoever_asks_after_a_jump_is_told_of_it_first(seconds: float):
    wall = _Wall()
    wall.error = timedelta(seconds=seconds)
    assert wall.time_of_day() == wall()
    assert wall.jumps == [(seconds, wall())]
    assert wall.time_of_day() == wall()
    assert len(wall.jumps) == 1


async def test_clocks_that_differ_by_five_seconds_have_not_parted():
    wall = _Wall()
    for seconds in (CLOCK_JUMP, -CLOCK_JUMP):
        wall.error = timedelta(seconds=seconds)
        wall.time_of_day()
    assert wall.jumps == []
