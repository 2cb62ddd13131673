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


def test_two_sets_of_metrics_do_not_fit_in_one_registry():
    setting = Setting()
    with pytest.raises(ValueError, match="Duplicated"):
        QueueCollector(setting.registry)
