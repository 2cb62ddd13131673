from __future__ import annotations

import random

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.workqueue.fakes import FakeClock
from workqueue import LOW_PRIORITY, WorkQueue
from workqueue.prometheus import MOST_PRIORITIES, OTHER_PRIORITIES, QueueCollector


class Setting:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = QueueCollector(self.registry)
        self.clock = FakeClock()

    def queue(self, name: str = "raycluster") -> WorkQueue[int]:
        return WorkQueue(name, clock=self.clock, rng=random.Random(1), metrics=self.metrics)

    def value(self, metric: str, name: str = "raycluster", **labels: str) -> float | None:
        return self.registry.get_sample_value(metric, {"name": name, "controller": name, **labels})

    def depths(self) -> dict[str, float]:
        return {
            sample.labels["priority"]: sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "workqueue_depth"
        }


async def test_names_types_and_labels_are_upstreams():
    setting = Setting()
    queue = setting.queue()
    queue.add(1)
    await queue.get()
    families = {
        family.name: (family.type, {frozenset(sample.labels) for sample in family.samples})
        for family in text_string_to_metric_families(generate_latest(setting.registry).decode())
        if not family.name.endswith("_created")
    }
    both = frozenset({"name", "controller"})
    assert families == {
        "workqueue_adds": ("counter", {both}),
        "workqueue_retries": ("counter", {both}),
        "workqueue_depth": ("gauge", {both | {"priority"}}),
        "workqueue_queue_duration_seconds": ("histogram", {both, both | {"le"}}),
        "workqueue_work_duration_seconds": ("histogram", {both, both | {"le"}}),
        "workqueue_unfinished_work_seconds": ("gauge", {both}),
        "workqueue_longest_running_processor_seconds": ("gauge", {both}),
    }


def test_each_metric_says_what_it_measures():
    told = {family.name: family.documentation for family in Setting().registry.collect()}
    assert told == {
        "workqueue_adds": "Total number of adds handled by workqueue",
        "workqueue_retries": "Total number of retries handled by workqueue",
        "workqueue_depth": "Current depth of workqueue by priority",
        "workqueue_queue_duration_seconds": (
            "How long in seconds a key stays dirty before a worker takes it"
        ),
        "workqueue_work_duration_seconds": "How long in seconds the run of a key takes",
        "workqueue_unfinished_work_seconds": (
            "Sum of the ages in seconds of all runs in flight; if it grows, a worker is stuck"
        ),
        "workqueue_longest_running_processor_seconds": "Age in seconds of the oldest run in flight",
    }


@pytest.mark.parametrize("duration", ["queue", "work"])
def test_buckets_reach_from_ten_nanoseconds_to_a_thousand_seconds(duration: str):
    setting = Setting()
    setting.queue()
    bounds = [
        float(sample.labels["le"])
        for family in setting.registry.collect()
        for sample in family.samples
        if sample.name == f"workqueue_{duration}_duration_seconds_bucket"
    ]
    assert bounds[:-1] == pytest.approx([1e-8 * 10**i for i in range(12)])


async def test_gauges_are_computed_when_scraped():
    setting = Setting()
    queue = setting.queue()
    for key in (1, 2):
        queue.add(key)
        await queue.get()
        setting.clock.advance(10)
    assert setting.value("workqueue_unfinished_work_seconds") == 30
    assert setting.value("workqueue_longest_running_processor_seconds") == 20
    setting.clock.advance(1)
    assert setting.value("workqueue_unfinished_work_seconds") == 32
    queue.done(1)
    assert setting.value("workqueue_longest_running_processor_seconds") == 11
    assert setting.value("workqueue_work_duration_seconds_sum") == 21


async def test_depth_is_told_by_priority_and_a_series_once_there_stays():
    setting = Setting()
    queue = setting.queue()
    assert setting.depths() == {"0": 0}
    queue.add(1, priority=LOW_PRIORITY)
    assert setting.depths() == {"0": 0, "-100": 1}
    queue.add(1, priority=0)
    assert setting.depths() == {"0": 1, "-100": 0}
    await queue.get()
    assert setting.depths() == {"0": 0, "-100": 0}


def test_there_are_never_more_priorities_than_allowed():
    setting = Setting()
    queue = setting.queue()
    for priority in range(100):
        queue.add(priority, priority=priority)
    depths = setting.depths()
    assert len(depths) == MOST_PRIORITIES + 1
    assert depths[OTHER_PRIORITIES] == 100 - MOST_PRIORITIES
    assert sum(depths.values()) == 100
    for priority in range(100, 200):
        queue.add(priority, priority=priority)
    assert len(setting.depths()) == MOST_PRIORITIES + 1
    assert setting.depths()["3"] == 1, "a priority with a series of its own keeps it"


def test_retries_count_delayed_adds_only():
    setting = Setting()
    queue = setting.queue()
    queue.add(1)
    queue.add_after(2, 0)
    assert setting.value("workqueue_retries_total") == 0
    queue.add_after(3, 1)
    queue.add_after(3, 2)
    queue.add_rate_limited(4)
    assert setting.value("workqueue_retries_total") == 3
    queue.close()
    queue.add_after(5, 1)
    assert setting.value("workqueue_retries_total") == 3


def test_a_queue_without_a_name_has_no_metrics():
    setting = Setting()
    setting.queue("").add(1)
    WorkQueue(clock=setting.clock, rng=random.Random(1), metrics=setting.metrics).add(1)
    assert b"name=" not in generate_latest(setting.registry)


def test_queues_are_told_apart_and_a_new_queue_follows_one_of_the_same_name():
    setting = Setting()
    first, other = setting.queue(), setting.queue("rayjob")
    first.add(1)
    first.close()
    second = setting.queue()
    second.add(1)
    second.add(2)
    other.add(1)
    assert setting.value("workqueue_adds_total") == 3
    assert setting.value("workqueue_depth", priority="0") == 2
    assert setting.value("workqueue_adds_total", name="rayjob") == 1
    assert setting.value("workqueue_depth", name="rayjob", priority="0") == 1


def test_two_sets_of_metrics_do_not_fit_in_one_registry():
    setting = Setting()
    with pytest.raises(ValueError, match="Duplicated"):
        QueueCollector(setting.registry)
