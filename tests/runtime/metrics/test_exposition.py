"""A scrape does a bounded amount of work before it lets the event loop run."""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections.abc import Callable, Iterable

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from controller.runtime.collectors import ObjectCollector, write_metrics

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


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
async def test_the_text_is_that_of_the_library(accept: str):
    encode, _ = choose_encoder(accept)
    registry = CollectorRegistry()
    Counter("writes", "Writes", ("verb",), registry=registry).labels("create").inc(3)
    Histogram("seconds", "Seconds", ("verb",), registry=registry).labels("get").observe(0.3)
    Gauge("nothing", "Has no samples", ("name",), registry=registry)
    registry.register(Sizes(lambda: (1, 2), Turns()))
    assert await write_metrics(registry, encode) == encode(registry)
