"""Measures the lag of the event loop and the pauses of the garbage collector; notices clock jumps.

Timers run on the monotonic clock, and deadlines and schedules are times of day. When one of the two
jumps (the time is corrected, or the machine was suspended), timers end at the wrong moment.
"""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from controller.runtime.metrics import RuntimeMetrics
    from workqueue import Clock, TimerHandle

PERIOD = 1.0
"""Seconds between two measurements of the lag."""


CLOCK_JUMP = 5.0
"""Seconds by which the time of day may differ from what the monotonic clock expects."""


class Monitor:
    """Measures until stopped. A `manager.Runnable`.

    Args:
        metrics: receives the measurements.
        clock: the running event loop, or something like it.
        wall: the time of day.
        on_clock_jump: called with the seconds by which the time of day has jumped.
    """

    name = "monitor"

    def __init__(
        self,
        metrics: RuntimeMetrics,
        *,
        clock: Clock,
        wall: Callable[[], datetime],
        on_clock_jump: Callable[[float], None],
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._wall = wall
        self._on_clock_jump = on_clock_jump
        self._offset = self._current_offset()
        self._stopped = asyncio.Event()
        self._timer: TimerHandle | None = None
        self._pause_began = 0.0

    async def run(self, ready: Callable[[], None]) -> None:
        """Measure until stopped."""
        gc.callbacks.append(self._on_collection)
        self._schedule()
        ready()
        try:
            await self._stopped.wait()
        finally:
            gc.callbacks.remove(self._on_collection)
            if self._timer is not None:
                self._timer.cancel()

    def stop(self) -> None:
        """Stop measuring."""
        self._stopped.set()

    def _schedule(self) -> None:
        due = self._clock.time() + PERIOD
        self._timer = self._clock.call_at(due, lambda: self._measure(due))

    def _measure(self, due: float) -> None:
        self._metrics.loop_lag.observe(max(0.0, self._clock.time() - due))
        self._compare_clocks()
        self._schedule()

    def _compare_clocks(self) -> None:
        jump = self._current_offset() - self._offset
        if abs(jump) > CLOCK_JUMP:
            self._offset += jump
            self._on_clock_jump(jump)

    def _current_offset(self) -> float:
        """Seconds between the time of day and the monotonic clock."""
        return self._wall().timestamp() - self._clock.time()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._pause_began = self._clock.time()
        else:
            pause = self._clock.time() - self._pause_began
            self._metrics.gc_pauses.labels(info["generation"]).observe(pause)
