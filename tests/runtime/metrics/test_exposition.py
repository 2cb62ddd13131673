"""The runtime's metrics as Prometheus reads them, those of objects and of the loop."""

from __future__ import annotations

import asyncio
import gc
import platform
from collections import Counter as Tally
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from controller.kube.objects import ObjectMeta
from controller.kube.resources import PODS
from controller.runtime.debug import EventLoop
from controller.runtime.expectations import ExpectationStatistics
from controller.runtime.health import write_metrics
from controller.runtime.manager import Monitor
from controller.runtime.metrics import (
    PAUSE_BUCKETS,
    PHASE_BUCKETS,
    RECONCILE_BUCKETS,
    ClientCollector,
    EventCollector,
    ExpectationCollector,
    ObjectCollector,
    RuntimeMetrics,
    identity,
    object_gauge,
)
from controller.runtime.recorder import RecorderStatistics

NUMBER = 3_000


class Turns:
    """Counts the turns of the event loop, and what was done in each."""

    def __init__(self) -> None:
        self.now = 0
        self.objects: Tally[int] = Tally()
        self.samples: Tally[int] = Tally()

    async def count(self) -> None:
        while True:
            self.now += 1
            await asyncio.sleep(0)

    def encode(self, collector: Collector) -> bytes:
        self.samples[self.now] += sum(len(family.samples) for family in collector.collect())
        return generate_latest(collector)


class Sizes(ObjectCollector[int]):
    """Two gauges of each object, which is its size."""

    def __init__(self, read: Callable[[], Iterable[int]], turns: Turns) -> None:
        super().__init__(read)
        self._turns = turns

    def metrics(self, current: Iterable[int], /) -> list[GaugeMetricFamily]:
        sizes = list(current)
        self._turns.objects[self._turns.now] += len(sizes)
        families = [GaugeMetricFamily(f"size_{of}", "Size", labels=["name"]) for of in "ab"]
        for family in families:
            for size in sizes:
                family.add_metric([f"line\r{size}\n# HELP"], size)
        return families


async def test_a_scrape_of_3000_objects_does_a_bounded_amount_of_work_in_each_turn():
    turns, registry = Turns(), CollectorRegistry()
    registry.register(Sizes(lambda: range(NUMBER), turns))
    counting = asyncio.create_task(turns.count())
    await asyncio.sleep(0)
    text = await write_metrics(registry, turns.encode)
    counting.cancel()
    assert sum(turns.samples.values()) == 2 * NUMBER
    assert max(turns.objects.values()) <= 50
    assert max(turns.samples.values()) <= 100
    first, second = text_string_to_metric_families(text.decode())
    for family in first, second:
        assert [sample.value for sample in family.samples] == list(range(NUMBER))
    assert text.count(b"\n# TYPE size_") == 2


async def test_a_large_family_of_any_collector_is_written_in_parts():
    turns, registry = Turns(), CollectorRegistry()
    gauge = Gauge("size", "Size", ("name",), registry=registry)
    for number in range(1_001):
        gauge.labels(str(number)).set(number)
    counting = asyncio.create_task(turns.count())
    await asyncio.sleep(0)
    text = await write_metrics(registry, turns.encode)
    counting.cancel()
    assert max(turns.samples.values()) <= 100
    assert text == generate_latest(registry)


def test_a_gauge_of_objects_tells_them_apart_by_name_namespace_and_uid():
    family = object_gauge("widget_size", "Size of a widget", "colour")
    family.add_metric([*identity(ObjectMeta(name="f", namespace="default", uid="u")), "red"], 3)
    (sample,) = family.samples
    assert (family.name, family.documentation) == ("widget_size", "Size of a widget")
    assert sample.labels == {"name": "f", "namespace": "default", "uid": "u", "colour": "red"}


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
    assert monitor.lag() == EventLoop(2.0, 2.0)
    assert measured.times_read == [101.25, 101.75, 104.75]
    assert measured.clock.timers[0][0] == 105.75
    monitor.stop()
    await running
    assert measured.clock.cancelled == 1


async def test_the_longest_lag_is_that_of_the_last_minute():
    measured = Measurements()
    monitor = measured.monitor()
    assert monitor.lag() == EventLoop(None, None)
    running = asyncio.create_task(monitor.run(lambda: None))
    await asyncio.sleep(0)
    measured.clock.fire(late=2.0)
    for _ in range(59):
        measured.clock.fire(late=0.25)
    assert monitor.lag() == EventLoop(0.25, 2.0)
    measured.clock.fire(late=0.5)
    assert monitor.lag() == EventLoop(0.5, 0.5)
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


GOLDEN = Path(__file__).parents[1] / "golden" / "metrics.txt"

EXPECTATIONS = ExpectationStatistics(
    owners=1,
    expectations=2,
    pending=3,
    unknown=4,
    oldest_age=5.5,
    oldest_unseen=6.5,
    live_reads=9,
)
LANES = {("create", "pods"): 15, ("all", "all"): 1}
CLIENT: Any = SimpleNamespace(
    limiter=SimpleNamespace(waiting=12, in_flight=13, slow=14),
    pauses=SimpleNamespace(paused=lambda: LANES),
)
EVENTS = RecorderStatistics(sent=16, spam=17, overflow=18, failed=19)


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    metrics = RuntimeMetrics(registry, version="1.2.3")
    widgets = metrics.controller("widgets", 20)
    metrics.controller("gadgets", 21)
    workers: Any = SimpleNamespace(busy=22, released=23)
    widgets.observe_workers(workers)
    for count, result in enumerate(("success", "error", "requeue", "requeue_after"), start=24):
        for _ in range(count):
            widgets.reconciled(result)
    counters = widgets.errors, widgets.terminal_errors, widgets.panics, widgets.timeouts
    for count, counter in enumerate(counters, start=28):
        counter.inc(count)
    widgets.seconds.observe(32.0)
    widgets.planning.observe(33.0)
    widgets.first_write(37.0)
    widgets.phase("pods_ready", 38.0)
    widgets.wrote("create", 34)
    widgets.stale(PODS)
    metrics.loop_lag.observe(35.0)
    metrics.gc_pauses.labels(2).observe(36.0)
    registry.register(ExpectationCollector(lambda: EXPECTATIONS))
    registry.register(ClientCollector(lambda: CLIENT))
    registry.register(EventCollector(lambda: EVENTS))
    return registry


def test_the_exposition_has_these_names_labels_texts_and_values(registry: CollectorRegistry):
    lines = generate_latest(registry).decode().splitlines()
    stable = [line for line in lines if "_created" not in line and "_bucket" not in line]
    found = "\n".join(stable).replace(platform.python_version(), "PYTHON")
    assert found == GOLDEN.read_text().rstrip()


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("controller_runtime_reconcile_time_seconds", RECONCILE_BUCKETS),
        ("manta_plan_seconds", PAUSE_BUCKETS),
        ("manta_first_write_seconds", RECONCILE_BUCKETS),
        ("manta_phase_seconds", PHASE_BUCKETS),
        ("manta_event_loop_lag_seconds", PAUSE_BUCKETS),
        ("manta_gc_pause_seconds", PAUSE_BUCKETS),
    ],
)
def test_histograms_have_these_buckets(
    registry: CollectorRegistry, name: str, bounds: tuple[float, ...]
):
    (family,) = [family for family in registry.collect() if family.name == name]
    buckets = {each.labels["le"] for each in family.samples if each.name == f"{name}_bucket"}
    assert {float(each) for each in buckets} == {*bounds, float("inf")}


class Counted(ObjectCollector[Any]):
    def metrics(self, current: Any, /) -> Any:
        family = GaugeMetricFamily("counted", "Counted", labels=["name"])
        for each in current:
            family.add_metric([each["name"]], each["count"])
        return [family]


def test_metrics_of_objects_are_known_by_name_before_the_first_scrape():
    collector = Counted(lambda: [{"name": "a", "count": 1}])
    (described,), (collected,) = collector.describe(), collector.collect()
    assert (described.name, described.samples) == ("counted", [])
    assert [each.value for each in collected.samples] == [1]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"name": 7, "count": 1},
        {"name": "odd", "count": "many"},
        {"name": "odd", "count": 10**400},
        {"name": "odd", "count": None},
    ],
)
def test_an_object_of_which_no_metric_can_be_made_costs_no_other_its_metrics(odd: Any):
    registry = CollectorRegistry()
    registry.register(Counted(lambda: [{"name": "a", "count": 1}, odd, {"name": "b", "count": 2}]))
    lines = generate_latest(registry).decode().splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert samples == ['counted{name="a"} 1.0', 'counted{name="b"} 2.0']
