"""Names, labels, help texts and values of the runtime's metrics, as Prometheus reads them."""

from __future__ import annotations

import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from controller.kube.resources import PODS
from controller.runtime.collectors import ObjectCollector
from controller.runtime.event_series import RecorderStatistics
from controller.runtime.expectations.statistics import ExpectationStatistics
from controller.runtime.metrics import (
    PAUSE_BUCKETS,
    PHASE_BUCKETS,
    RECONCILE_BUCKETS,
    ClientCollector,
    EventCollector,
    ExpectationCollector,
    RuntimeMetrics,
)

GOLDEN = Path(__file__).parent / "golden" / "metrics.txt"

EXPECTATIONS = ExpectationStatistics(
    owners=1,
    expectations=2,
    pending=3,
    unknown=4,
    oldest_age=5.5,
    oldest_unseen=6.5,
    need_live_read=7,
    corrections=8,
    live_reads=9,
    resolved_by={"watch": 10, "list": 11},
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


def test_metrics_of_state_read_nothing_before_the_first_scrape():
    def read() -> RecorderStatistics:
        raise AssertionError("read too early")

    assert list(EventCollector(read).describe()) == []
