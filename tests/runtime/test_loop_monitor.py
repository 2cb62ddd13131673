"""The monitor notices that the time of day and the monotonic clock have parted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry

from controller.runtime.loop_monitor import CLOCK_JUMP, Monitor
from controller.runtime.metrics import RuntimeMetrics


async def test_each_jump_of_the_time_of_day_is_reported_once():
    loop = asyncio.get_running_loop()
    jumps, error = list[float](), timedelta()
    monitor = Monitor(
        RuntimeMetrics(CollectorRegistry(), version="1"),
        clock=loop,
        wall=lambda: datetime(2026, 1, 1, tzinfo=UTC) + error + timedelta(seconds=loop.time()),
        on_clock_jump=lambda seconds: jumps.append(round(seconds)),
    )
    running = asyncio.create_task(monitor.run(lambda: None))
    for seconds in (0, CLOCK_JUMP - 1, 3600, 0):
        error = timedelta(seconds=seconds)
        await asyncio.sleep(10)
    assert jumps == [3600, -3600]
    monitor.stop()
    await running
