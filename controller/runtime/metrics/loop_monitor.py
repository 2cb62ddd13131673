"""Measures the lag of the event loop and the pauses of the garbage collector; reads the clock."""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.runtime.metrics.metrics import RuntimeMetrics
    from controller.runtime.time_of_day import TimeOfDay
    from workqueue import Clock, TimerHandle

PERIOD = 1.0
"""Seconds between two measurements of the lag."""

_REMEMBERED = 60
"""Number of measurements to remember: those of a minute."""


@dataclass(frozen=True, slots=True)
class LoopLag:
    """The lateness of the monitor's timer in seconds: the latest, and the longest of a minute."""

    latest: float
    longest: float


class Monitor:
    """Measures until stopped. A `manager.Runnable`.

    Args:
        metrics: receives the measurements.
        clock: the running event loop, or something like it.
        time_of_day: read every period, so that it notices jumps even if nothing else reads it.
    """

    name = "monitor"

    def __init__(
        self,
        metrics: RuntimeMetrics,
        *,
        clock: Clock,
        time_of_day: TimeOfDay,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._time_of_day = time_of_day
        self._stopped = asyncio.Event()
        self._timer: TimerHandle | None = None
        self._pause_began = 0.0
        self._lags: deque[float] = deque(maxlen=_REMEMBERED)

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

    def lag(self) -> LoopLag | None:
        """Return the lag of the last minute; None before the first measurement."""
        return LoopLag(self._lags[-1], max(self._lags)) if self._lags else None

    def _schedule(self) -> None:
        due = self._clock.time() + PERIOD
        self._timer = self._clock.call_at(due, lambda: self._measure(due))

    def _measure(self, due: float) -> None:
        lag = max(0.0, self._clock.time() - due)
        self._metrics.loop_lag.observe(lag)
        self._lags.append(lag)
        self._time_of_day()
        self._schedule()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._pause_began = self._clock.time()
        else:
            pause = self._clock.time() - self._pause_began
            self._metrics.gc_pauses.labels(info["generation"]).observe(pause)
