"""Metric names and labels that existing dashboards rely on."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from informers.informer import InformerStatistics
from informers.prometheus import InformerCollector, InformerLabels
from tests.informers.doubles import (
    Hang,
    Recorder,
    ScriptedSource,
    added,
    event,
    informer_of,
    page,
    running,
    status,
    thing,
)

LABELS = {"name": "clusters", "group": "ray.io", "version": "v1", "resource": "rayclusters"}
REVISION = "9" + "1234567890" * 2


@pytest.fixture
async def registry():
    """What is exposed after an eventful life of a minute."""
    registry = CollectorRegistry()
    metrics = InformerCollector(registry, clock=asyncio.get_running_loop())
    odd = event("ADDED", thing("odd", 4, size="large"))
    source = ScriptedSource(
        lists=[page([thing("a", 1), thing("b", 2)], 3), page([thing("a", 1)], REVISION)],
        watches=[[odd, event("ODDITY", {}), added("c", 5), status(410)], [], [Hang]],
        streams=[[status(422)]],
    )
    source.lists.append(page([thing("a", 1)], REVISION))
    informer = informer_of(source, metrics=metrics.recorder(InformerLabels(**LABELS)))
    informer.add_handler(Recorder(fail_on={"a"}))
    informer.add_handler(Recorder())
    async with running(informer):
        await asyncio.sleep(60)
        yield registry


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("informer_store_resource_version", {}, 678901234567890),
        ("informer_synced", {}, 1),
        ("informer_objects", {}, 1),
        ("informer_quarantined_objects", {}, 0),
        ("informer_relists_total", {"cause": "Expired"}, 1),
        ("informer_relists_total", {"cause": "short watch"}, 1),
        ("informer_streaming_fall_backs_total", {}, 1),
        ("informer_skipped_events_total", {}, 1),
        ("informer_handler_failures_total", {"handler": "Recorder"}, 1),
        ("informer_processing_latency_seconds_count", {}, 5),
    ],
)
async def test_each_informer_is_measured_under_upstream_s_names(registry, name, labels, value):
    assert registry.get_sample_value(name, LABELS | labels) == value


async def test_latency_has_upstream_s_buckets(registry):
    bounds = "0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1.0 2.5 5.0 10.0 +Inf"
    for bound in bounds.split():
        name = "informer_processing_latency_seconds_bucket"
        assert registry.get_sample_value(name, LABELS | {"le": bound}) is not None


async def test_an_informer_that_has_ended_is_not_exposed():
    registry = CollectorRegistry()
    metrics = InformerCollector(registry, clock=asyncio.get_running_loop())
    informer = informer_of(ScriptedSource(), metrics=metrics.recorder(InformerLabels(**LABELS)))
    assert registry.get_sample_value("informer_synced", LABELS) == 0
    async with running(informer):
        await asyncio.sleep(0)
    assert registry.get_sample_value("informer_synced", LABELS) is None
    metrics.recorder(InformerLabels(**LABELS))


class Clock:
    def time(self) -> float:
        return 100.0


STATISTICS = InformerStatistics(
    name="clusters",
    description="",
    state="Watching",
    mode="list",
    has_synced=True,
    resource_version="8",
    objects=11,
    quarantined=12,
    connected=True,
    last_byte=60.0,
    last_event=None,
    last_bookmark=None,
    last_list=None,
    last_error="",
    last_error_at=None,
    lists=1,
    streams=1,
    relists={"Expired": 2, "short watch": 3},
    watch_restarts={"ended": 4},
    fall_backs=5,
    skipped=7,
    handler_failures={"a": 3, "b": 0},
)


def test_each_figure_has_its_metric():
    registry = CollectorRegistry()
    metrics = InformerCollector(registry, clock=Clock())
    metrics.recorder(InformerLabels(**LABELS)).started(lambda: STATISTICS)
    found = {
        (sample.name, *(value for name, value in sample.labels.items() if name not in LABELS)): (
            sample.value
        )
        for family in registry.collect()
        for sample in family.samples
        if "latency" not in sample.name
    }
    assert found == {
        ("informer_store_resource_version",): 8,
        ("informer_synced",): 1,
        ("informer_objects",): 11,
        ("informer_quarantined_objects",): 12,
        ("informer_silence_seconds",): 40,
        ("informer_relists_total", "Expired"): 2,
        ("informer_relists_total", "short watch"): 3,
        ("informer_watch_restarts_total", "ended"): 4,
        ("informer_streaming_fall_backs_total",): 5,
        ("informer_skipped_events_total",): 7,
        ("informer_handler_failures_total", "a"): 3,
        ("informer_handler_failures_total", "b"): 0,
    }


def test_names_of_informers_must_tell_them_apart():
    metrics = InformerCollector(CollectorRegistry(), clock=Clock())
    with pytest.raises(ValueError, match=r"^an informer without a name cannot be told apart"):
        metrics.recorder(InformerLabels("", "", "v1", "pods"))
    metrics.recorder(InformerLabels(**LABELS))
    with pytest.raises(ValueError, match=r"^there is an informer named 'clusters' already$"):
        metrics.recorder(InformerLabels(**LABELS))
