"""Events by upstream's rows, for events.k8s.io/v1."""

from __future__ import annotations

import asyncio
import re

import pytest

from controller.apimachinery.redaction import clip, shorten
from controller.kube.errors import OutcomeUnknown
from controller.kube.objects import ObjectMeta
from controller.kube.resources import NODES, PODS
from controller.runtime.plan import Event
from controller.runtime.recorder import MOST_REMEMBERED, MOST_UNSENT, REFRESH, SILENCE, TRIES
from tests.runtime.events.kit import META, Sink, event, recording
from tests.runtime.kit import status_error


async def test_events_that_differ_only_in_what_a_server_varies_are_one_series():
    async with recording() as (recorder, sink):
        for number in range(5):
            note = f"cannot read x: request 7f3a{number} at 10.0.0.{number}: refused"
            recorder.record(PODS, META, Event("Warning", "No", "Reconcile", note, quotes=True))
        await asyncio.sleep(1)
    assert sink.counts == [5]


@pytest.mark.parametrize(
    ("error", "attempts", "failed"),
    [
        (status_error(403, "Forbidden"), 1, 1),
        (status_error(422, "Invalid"), 1, 1),
        (status_error(403, "Terminating", cause="NamespaceTerminating"), 1, 0),
        (status_error(409, "AlreadyExists"), 1, 0),
        (OutcomeUnknown("reset"), TRIES, 1),
        (status_error(503, "ServiceUnavailable"), TRIES, 1),
        (status_error(429, "TooManyRequests"), TRIES, 1),
    ],
    ids=str,
)
async def test_refusals_are_final_and_everything_else_is_tried_again(
    error: Exception, attempts: int, failed: int
):
    def fail(_verb: str, _name: str) -> None:
        raise error

    async with recording(Sink(fail)) as (recorder, sink):
        recorder.record(PODS, META, event())
        await asyncio.sleep(500)
        assert len(sink.calls) == attempts
        assert recorder.statistics.failed == failed
        assert recorder.statistics.unsent == 0


async def test_an_event_that_has_expired_on_the_server_is_made_again():
    async with recording() as (recorder, sink):
        recorder.record(PODS, META, event())
        await asyncio.sleep(1)
        sink.events.clear()
        recorder.record(PODS, META, event())
        await asyncio.sleep(1)
        assert sink.counts == [2]


async def test_a_series_is_told_at_two_refreshed_and_finished_by_silence():
    async with recording() as (recorder, sink):
        recorder.record(PODS, META, event())
        await asyncio.sleep(1)
        assert sink.counts == [1]
        recorder.record(PODS, META, event())
        await asyncio.sleep(1)
        assert sink.counts == [2]
        while asyncio.get_running_loop().time() < REFRESH - 100:
            await asyncio.sleep(100)
            recorder.record(PODS, META, event())
        assert sink.counts == [2], "later ones only in memory"
        for _ in range(4):
            await asyncio.sleep(100)
            recorder.record(PODS, META, event())
        assert sink.counts[0] > 15, "refreshed"
        before = len(sink.calls)
        await asyncio.sleep(SILENCE + 1)
        assert len(sink.calls) == before + 1, "the last count"
        recorder.record(PODS, META, event())
        await asyncio.sleep(1)
        assert len(sink.events) == 2, "the series was over: a new one"
        await asyncio.sleep(SILENCE + 1)
        assert not recorder._series, "nothing is remembered for ever"


async def test_repetitions_during_a_slow_create_are_not_lost():
    async with recording(Sink(seconds=5.0)) as (recorder, sink):
        for _ in range(4):
            recorder.record(PODS, META, event())
            await asyncio.sleep(1)
        await asyncio.sleep(30)
    assert sink.counts == [4]


async def test_events_about_cluster_scoped_objects_are_in_the_default_namespace():
    async with recording() as (recorder, sink):
        recorder.record(NODES, ObjectMeta(name="n", uid="uid-n"), event())
    (made,) = sink.events.values()
    assert made["metadata"]["namespace"] == "default"
    assert made["regarding"]["namespace"] == ""


async def test_every_field_is_what_the_api_server_validates():
    async with recording() as (recorder, sink):
        odd = Event("Warning", "R" * 200, "A" * 200, "é" * 1000)
        recorder.record(PODS, META, odd, reporter="widget-controller")
    (made,) = sink.events.values()
    assert (len(made["reason"]), len(made["action"])) == (128, 128)
    assert 1020 < len(made["note"].encode()) <= 1024
    assert made["reportingController"] == "widget-controller"
    assert made["reportingInstance"] == "pod-0"
    assert re.fullmatch(r"2026-01-01T00:00:\d\d\.\d{6}Z", made["eventTime"])
    assert made["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "namespace": "ns",
        "uid": "uid-p",
        "resourceVersion": "7",
    }


def test_a_note_is_never_cut_inside_a_character():
    assert clip("é" * 10, 5) == "éé"
    assert clip("short", 1024) == "short"


@pytest.mark.parametrize("server", ["x" * 5000, "é" * 5000, "no"])
def test_a_long_note_loses_its_middle_and_keeps_what_to_do(server: str):
    note = f"group a: cannot create a pod: {server}; ask for a larger quota"
    told = shorten(note, 1024)
    assert told.startswith("group a: cannot create a pod: ")
    assert told.endswith("; ask for a larger quota")
    assert (told == note) if len(server) < 1000 else (1018 < len(told.encode()) <= 1024)


async def test_more_than_can_be_kept_is_dropped_and_counted():
    async with recording(Sink(seconds=1000.0)) as (recorder, _):
        for number in range(MOST_UNSENT + 5):
            meta = ObjectMeta(name=f"p{number}", namespace="ns", uid=f"uid-{number}")
            recorder.record(PODS, meta, event())
        assert recorder.statistics.overflow == 5
        began = asyncio.get_running_loop().time()
        flushing = asyncio.create_task(recorder.flush())
        await asyncio.wait([flushing], timeout=10)
        assert asyncio.get_running_loop().time() - began == pytest.approx(2.0, abs=0.1)


async def test_memory_is_bounded_however_many_objects_there_are():
    async with recording(Sink(seconds=0.0)) as (recorder, sink):
        for number in range(MOST_REMEMBERED + 500):
            meta = ObjectMeta(name=f"p{number}", namespace="ns", uid=f"uid-{number}")
            recorder.record(PODS, meta, event())
            if number % 200 == 0:
                await asyncio.sleep(1)
        await asyncio.sleep(1)
        assert len(sink.events) == MOST_REMEMBERED + 500
        assert len(recorder._series) == len(recorder._spam_filter._buckets) == MOST_REMEMBERED
