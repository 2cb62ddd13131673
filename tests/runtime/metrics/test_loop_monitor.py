"""What the monitor measures: how late timers are, and the pauses of the garbage collector."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from controller.runtime.metrics import LoopLag, Monitor


@dataclass
class ManualClock:
    """A clock whose timers a test calls when it likes."""

    now: float = 100.0
    timers: list[tuple[float, Callable[[], object]]] = field(default_factory=list[Any])
    cancelled: int = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object]) -> ManualClock:
        self.timers.append((when, callback))
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    def fire(self, *, late: float) -> None:
        due, callback = self.timers.pop(0)
        self.now = due + late
        callback()


@dataclass
class Measurements:
    """A monitor with a manual clock, and what it has measured."""

    clock: ManualClock = field(default_factory=ManualClock)
    lags: list[float] = field(default_factory=list[float])
    pauses: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    times_read: list[float] = field(default_factory=list[float])

    def monitor(self) -> Monitor:
        def pauses_of(generation: int) -> Any:
            return SimpleNamespace(observe=lambda pause: self.pauses.append((generation, pause)))

        metrics: Any = SimpleNamespace(
            loop_lag=SimpleNamespace(observe=self.lags.append),
            gc_pauses=SimpleNamespace(labels=pauses_of),
        )
        clock: Any = self.clock
        read: Any = lambda: self.times_read.append(self.clock.now)  # noqa: E731
        return Monitor(metrics, clock=clock, time_of_day=read)


async def test_each_second_the_lag_is_measured_and_the_time_of_day_read():
    measured, ready = Measurements(), asyncio.Event()
    monitor = measured.monitor()
    running = asyncio.create_task(monitor.run(ready.set))
    await ready.wait()
    assert measured.clock.timers[0][0] == 101.0
    for late in (0.25, -0.5, 2.0):
        measured.clock.fire(late=late)
    assert measured.lags == [0.25, 0.0, 2.0]
    assert monitor.lag() == LoopLag(2.0, 2.0)
    assert measured.times_read == [101.25, 101.75, 104.75]
    assert measured.clock.timers[0][0] == 105.75
    monitor.stop()
    await running
    assert measured.clock.cancelled == 1


async def test_the_longest_lag_is_that_of_the_last_minute():
    measured = Measurements()
    monitor = measured.monitor()
    assert monitor.lag() is None
    running = asyncio.create_task(monitor.run(lambda: None))
    await asyncio.sleep(0)
    measured.clock.fire(late=2.0)
    for _ in range(59):
        measured.clock.fire(late=0.25)
    assert monitor.lag() == LoopLag(0.25, 2.0)
    measured.clock.fire(late=0.5)
    assert monitor.lag() == LoopLag(0.5, 0.5)
    monitor.stop()
    await running


async def test_pauses_of_the_garbage_collector_are_measured_as_long_as_the_monitor_runs():
    measured = Measurements()
    monitor = measured.monitor()
    running = asyncio.create_task(monitor.run(lambda: None))
    await asyncio.sleep(0)
    notify = monitor._on_collection
    assert notify in gc.callbacks
    notify("start", {"generation": 2})
    measured.clock.now += 0.5
    notify("stop", {"generation": 2})
    assert measured.pauses[-1] == (2, 0.5)
    monitor.stop()
    await running
    assert notify not in gc.callbacks
