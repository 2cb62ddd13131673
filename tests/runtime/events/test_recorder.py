"""What the recorder sends, when, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import itertools
import random
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from controller.apimachinery.redaction import shorten
from controller.kube.errors import OutcomeUnknown
from controller.kube.objects import ObjectMeta
from controller.kube.resources import EVENTS, PODS
from controller.runtime import recorder as module
from controller.runtime.recorder import (
    BURST,
    MOST_UNSENT,
    MOST_UNSENT_WITH_WARNINGS,
    PATIENCE,
    REFRESH,
    RESERVED,
    SENDERS,
    TRIES,
)
from tests.runtime.events.kit import META, Sink, event, recording
from tests.runtime.kit import status_error

STAMP = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000_000


def about(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}")


def lost(_verb: str, _name: str) -> None:
    raise OutcomeUnknown("reset")


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_an_event_is_sent_in_the_form_of_events_k8s_io_v1():
    async with recording() as (recorder, sink):
        recorder.record(PODS, META, event())
    (call,) = sink.calls
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"p.{STAMP:x}", "namespace": "ns"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "manta-operator",
        "reportingInstance": "pod-0",
        "type": "Normal",
        "reason": "Because",
        "action": "Reconcile",
        "note": "it happened",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "namespace": "ns",
            "uid": "uid-p",
            "resourceVersion": "7",
        },
    }
    assert call == ("create", f"p.{STAMP:x}", body)
    assert sink.flows == ["events/ns"]


@pytest.mark.parametrize(("length", "kept"), [(236, True), (237, False)])
async def test_a_name_that_would_be_too_long_is_a_random_uuid(length: int, kept: bool):
    async with recording() as (recorder, sink):
        recorder.record(PODS, about("x" * length), event())
    bits = random.Random(1).getrandbits(128)
    random_name = str(uuid.UUID(int=bits, version=4))
    assert list(sink.events) == ["x" * 236 + f".{STAMP:x}" if kept else random_name]


@pytest.mark.parametrize(
    "other", [{"type": "Warning"}, {"reason": "Otherwise"}, {"action": "Delete"}]
)
async def test_events_that_differ_only_in_one_field_are_two(other: dict[str, Any]):
    async with recording() as (recorder, sink):
        recorder.record(PODS, META, event())
        recorder.record(PODS, META, replace(event(), **other))
    (field,) = other
    assert [made[field] for made in sink.events.values()] == [getattr(event(), field), other[field]]


async def test_many_events_that_are_alike_leave_room_for_the_others():
    async with recording() as (recorder, sink):
        for number in range(BURST):
            many = replace(event(f"made {number}"), aggregate_note="made {count}")
            recorder.record(PODS, META, many)
        recorder.record(PODS, META, event("it is ready"))
    assert recorder.statistics.spam == RESERVED
    assert sink.notes[-1] == "it is ready"


async def test_namesakes_without_a_uid_are_told_apart_by_resource_and_key():
    async with recording() as (recorder, sink):
        for namespace in ("ns", "other"):
            recorder.record(PODS, ObjectMeta(name="p", namespace=namespace), event())
        recorder.record(EVENTS, ObjectMeta(name="p", namespace="ns"), event())
    assert len(sink.events) == 3


async def test_retries_wait_twice_as_long_each_time_the_first_from_zero_and_others_by_a_quarter():
    times: dict[str, list[float]] = {}

    def fail(_verb: str, name: str) -> None:
        times.setdefault(name, []).append(now())
        raise OutcomeUnknown("reset")

    async with recording(Sink(fail, seconds=0.0)) as (recorder, _):
        await asyncio.sleep(REFRESH + 1)
        for number in range(40):
            recorder.record(PODS, about(f"p{number}"), event())
        with capture_logs():
            await asyncio.sleep(500)
    gaps = [[b - a for a, b in itertools.pairwise(each)] for each in times.values()]
    assert {len(each) for each in gaps} == {TRIES - 1}
    first = [each[0] for each in gaps]
    later = [gap / 2**number for each in gaps for number, gap in enumerate(each) if number]
    assert 0 <= min(first) < 2
    assert 11 < max(first) <= 12.5
    assert 7.5 <= min(later) < 8
    assert 12 < max(later) <= 12.5


@pytest.mark.parametrize("pause", [0.0, 7.0, 60.0])
async def test_twenty_events_about_one_object_cost_as_many_failed_attempts_as_one(
    pause: float,
):
    async def attempts(events: int) -> int:
        sink, began = Sink(lost, seconds=0.0), now()
        async with recording(sink) as (recorder, _):
            for number in range(events):
                recorder.record(PODS, META, event(f"the {number}th"))
                await asyncio.sleep(pause)
            await asyncio.sleep(1200 + began - now())
            return len(sink.calls)

    with capture_logs():
        one, twenty = await attempts(1), await attempts(20)
    assert one == TRIES
    assert twenty <= 2 * TRIES, "in twenty minutes"


async def test_what_was_held_back_is_sent_as_soon_as_one_attempt_succeeds():
    sink = Sink(lost)
    async with recording(sink) as (recorder, _):
        for number in range(8):
            recorder.record(PODS, META, event(f"the {number}th"))
        await asyncio.sleep(30)
        sink.script = lambda _verb, _name: None
        sink.calls.clear()
        await asyncio.sleep(51)
        assert len(sink.calls) == len(sink.events) == 8
        assert {each["eventTime"] for each in sink.events.values()} == {
            "2026-01-01T00:00:00.000000Z"
        }


async def test_an_event_that_fails_alone_does_not_hold_up_the_others_about_its_object():
    def fail(_verb: str, name: str) -> None:
        if name == f"p.{STAMP:x}":
            raise OutcomeUnknown("reset")

    async with recording(Sink(fail)) as (recorder, sink):
        for number in range(4):
            recorder.record(PODS, META, event(f"the {number}th"))
        await asyncio.sleep(13)
        assert sink.notes == ["the 1th", "the 2th", "the 3th"]
        with capture_logs() as logs:
            for number in range(4, 30):
                await asyncio.sleep(10)
                recorder.record(PODS, META, event(f"the {number}th"))
            await asyncio.sleep(200)
        assert sink.notes == [f"the {number}th" for number in range(1, BURST)]
        assert [line["event"] for line in logs] == ["event.dropped"]
        assert sum(name == f"p.{STAMP:x}" for _, name, _ in sink.calls) == TRIES


async def test_an_event_that_fails_alone_neither_prolongs_nor_drops_another():
    def fail(_verb: str, name: str) -> None:
        if name != f"p.{STAMP:x}" and now() < 400:
            raise OutcomeUnknown("reset")

    async with recording(Sink(fail)) as (recorder, sink):
        recorder.record(PODS, META, event("rare"))
        for number in range(4):
            await asyncio.sleep(100)
            recorder.record(PODS, META, event(f"the {number}th"))
        recorder.record(PODS, META, event("rare"))
        await asyncio.sleep(200)
        assert sink.notes.count("rare") == 2, "its series was over"
        assert recorder.statistics.failed == 0


async def test_the_failures_of_what_was_discarded_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(module, "MOST_REMEMBERED", 1)

    def fail(_verb: str, name: str) -> None:
        if name.startswith("a."):
            raise OutcomeUnknown("reset")

    async with recording(Sink(fail, seconds=1.0)) as (recorder, _):
        recorder.record(PODS, about("a"), event())
        await asyncio.sleep(0.5)
        recorder.record(PODS, about("b"), event())
        await asyncio.sleep(2000)
        assert not recorder._objects.keys() - {"uid-b"}


async def test_the_last_events_are_sent_when_the_recorder_stops():
    async with recording(Sink(seconds=1.0)) as (recorder, sink):
        await asyncio.sleep(5)
        recorder.record(PODS, META, event())
    assert sink.notes == ["it happened"]


async def test_at_the_end_all_events_about_an_object_are_sent_at_once():
    def fail(verb: str, name: str) -> None:
        if verb == "patch" or name == f"p.{STAMP + 2 * 10**9:x}":
            raise OutcomeUnknown("reset")

    with capture_logs() as logs:
        async with recording(Sink(fail, seconds=1.9)) as (recorder, sink):
            recorder.record(PODS, META, event("repeated"))
            await asyncio.sleep(2)
            for number in range(SENDERS - 1):
                recorder.record(PODS, META, event(f"the {number}th"))
            recorder.record(PODS, META, event("repeated"))
            await asyncio.sleep(2)
            assert sink.notes == ["repeated"]
    assert len(sink.events) == SENDERS - 1
    assert logs == [{"event": "events.unsent", "count": 2, "log_level": "warning"}]


@pytest.mark.parametrize("error", [OutcomeUnknown("reset"), status_error(422, "Invalid"), None])
async def test_what_was_discarded_while_it_was_tried_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
):
    monkeypatch.setattr(module, "MOST_REMEMBERED", 3)
    answers = iter([error])

    def answer(_verb: str, _name: str) -> None:
        if failure := next(answers, None):
            raise failure

    async with recording(Sink(answer, seconds=1.0)) as (recorder, sink):
        for number in range(4):
            recorder.record(PODS, META, event(f"the {number}th"))
            await asyncio.sleep(0.1)
        with capture_logs():
            await asyncio.sleep(30)
        assert {"the 1th", "the 2th", "the 3th"} <= set(sink.notes)
        assert recorder.statistics.unsent == 0
        assert not any(each.failures for each in recorder._objects.values())


async def test_an_unexpected_error_ends_the_turn_of_its_event():
    errors = iter([RecursionError("deep")])

    def fail(_verb: str, _name: str) -> None:
        if error := next(errors, None):
            raise error

    async with recording(Sink(fail)) as (recorder, sink):
        for note in ("odd", "good"):
            recorder.record(PODS, META, event(note))
        with capture_logs():
            await asyncio.sleep(1)
        assert sink.notes == ["good"]


async def test_each_dropped_event_is_counted_and_logged_with_the_error():
    def fail(_verb: str, _name: str) -> None:
        raise status_error(422, "Invalid", message="no such field")

    with capture_logs() as logs:
        async with recording(Sink(fail)) as (recorder, _):
            for name in ("a", "b"):
                recorder.record(PODS, about(name), event())
            await asyncio.sleep(1)
            assert (recorder.statistics.failed, recorder.statistics.sent) == (2, 0)
    assert [(line["name"], line["event"], line["log_level"]) for line in logs] == [
        (f"a.{STAMP:x}", "event.dropped", "warning"),
        (f"b.{STAMP + 1:x}", "event.dropped", "warning"),
    ]
    assert "no such field" in logs[0]["error"]


async def test_an_event_that_is_dropped_after_many_attempts_is_logged_with_the_last_error():
    with capture_logs() as logs:
        async with recording(Sink(lost)) as (recorder, _):
            for note in ("one", "two"):
                recorder.record(PODS, META, event(note))
            await asyncio.sleep(1000)
    assert [(line["event"], line["error"]) for line in logs] == [("event.dropped", "reset")] * 2


def test_a_note_keeps_its_end_a_quarter_of_what_is_allowed():
    assert shorten("x" * 40, 40) == "x" * 40
    assert shorten("a" * 60 + "z" * 40, 40) == "a" * 25 + " ... " + "z" * 10
    assert shorten("ä" * 60, 42) == "ä" * 13 + " ... " + "ä" * 5


async def test_an_unexpected_error_is_logged_with_the_object():
    error = RecursionError("deep")

    def fail(_verb: str, _name: str) -> None:
        raise error

    with capture_logs() as logs:
        async with recording(Sink(fail)) as (recorder, _):
            recorder.record(PODS, META, event())
            await asyncio.sleep(1)
    assert logs == [
        {"event": "event.dropped", "regarding": "uid-p", "exc_info": error, "log_level": "error"}
    ]


async def test_good_news_that_waits_takes_no_room_from_warnings():
    warning = replace(event(), type="Warning")
    async with recording(Sink(seconds=1000.0)) as (recorder, _):
        for number in range(MOST_UNSENT + 1):
            recorder.record(PODS, about(f"good-{number}"), event())
        assert recorder.statistics.overflow == 1
        for number in range(MOST_UNSENT_WITH_WARNINGS - MOST_UNSENT):
            recorder.record(PODS, about(f"bad-{number}"), warning)
        assert recorder.statistics.overflow == 1
        recorder.record(PODS, about("one-too-many"), warning)
        assert recorder.statistics.overflow == 2


async def test_slow_requests_hold_up_others_for_moments_only():
    async with recording(Sink(seconds=1.9)) as (recorder, sink):
        for number in range(2 * SENDERS):
            recorder.record(PODS, about(f"p{number}"), event())
        await asyncio.sleep(PATIENCE + 1.8)
        assert len(sink.calls) == SENDERS
        await asyncio.sleep(0.2)
        assert len(sink.calls) == 2 * SENDERS


async def test_at_the_end_it_is_said_how_many_could_not_be_sent():
    with capture_logs() as logs:
        async with recording(Sink(seconds=1000.0)) as (recorder, _):
            for name in "abc":
                recorder.record(PODS, about(name), event())
            await asyncio.sleep(1)
            await asyncio.wait([asyncio.create_task(recorder.flush())], timeout=3)
            assert logs == [{"event": "events.unsent", "count": 3, "log_level": "warning"}]


async def test_notes_that_are_cut_elsewhere_because_a_number_is_longer_are_one_event():
    text = "request {} failed: the server said no; it says so at length. " * 30
    async with recording() as (recorder, sink):
        for number in ("7", "1234567"):
            recorder.record(PODS, META, replace(event(text.format(*[number] * 30)), quotes=True))
    assert sink.counts == [2]


@pytest.mark.parametrize(
    ("beginning", "counts"),
    [("word " * 205, [2]), ("word " * 203, [1, 1]), ("1234567890 " * 373, [2])],
    ids=["cut once it is folded", "not cut", "cut before it is folded"],
)
async def test_notes_that_begin_alike_for_a_kilobyte_without_numbers_are_one_event(
    beginning: str, counts: list[int]
):
    async with recording() as (recorder, sink):
        for end in ("one", "other"):
            recorder.record(PODS, META, replace(event(beginning + end), quotes=True))
    assert sink.counts == counts
