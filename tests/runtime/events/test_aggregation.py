"""What a person reads about many like writes, when a series is sent, and how many may be."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.runtime import recorder as series
from controller.runtime.plan import MAX_JOINED, Event, aggregate_events
from controller.runtime.recorder import (
    BURST,
    REFILL,
    REFRESH,
    RESERVED,
    EventSeries,
    SeriesKey,
    SpamFilter,
)


def made(name: str, *, reason: str = "CreatedWorkerPod") -> Event:
    return Event(
        "Normal", reason, "Create", f"Created pod {name}", aggregate_note="Created {count} pods"
    )


def test_a_few_like_events_are_one_with_all_their_notes():
    [told] = aggregate_events(made(f"p{n}") for n in range(MAX_JOINED))
    assert told.note == "Created pod p0; Created pod p1; Created pod p2; Created pod p3"
    assert replace(told, note="") == replace(made("p"), note="")


def test_many_like_events_are_one_with_their_number_and_others_stay():
    head, alone = made("h", reason="CreatedHeadPod"), Event("Warning", "Odd", "Create", "Odd")
    events = [head, *(made(f"p{n}") for n in range(64)), *[alone] * 9]
    told = list(aggregate_events(events))
    assert [event.note for event in told] == ["Created pod h", "Created 64 pods", *["Odd"] * 9]
    assert {event.reason for event in told} == {"CreatedHeadPod", "CreatedWorkerPod", "Odd"}


def test_like_events_with_sentences_for_many_of_their_own_are_not_mixed():
    others = [Event("Normal", "CreatedWorkerPod", "Create", f"{n}") for n in range(9)]
    odd = [Event("Normal", "CreatedWorkerPod", "Create", "", aggregate_note="{count} odd")]
    events = [*others, *odd, made("p")]
    assert list(aggregate_events(events)) == events


def test_events_that_are_never_aggregated_keep_their_order():
    events = [Event("Normal", reason, "Create", f"{n}") for n in range(3) for reason in "AB"]
    assert list(aggregate_events(events)) == events


@pytest.mark.parametrize(
    ("sent", "now", "due"),
    [
        (0, 100.0, True),
        (1, 100.0, True),
        (2, 100.0, False),
        (2, 49.0 + REFRESH, False),
        (2, 50.0 + REFRESH, True),
        (4, 50.0 + REFRESH, False),
    ],
)
def test_two_occurrences_are_due_at_once_and_more_half_hourly(sent: int, now: float, due: bool):
    key = SeriesKey("", "", "", "", "", "")
    series = EventSeries(key, b"{}", last_seen=2000.0, last_time="", count=4)
    series.sent, series.sent_at = sent, 50.0
    assert (series.due_at <= now) is due


def passed(spam: SpamFilter, count: int, now: float, regarding: str = "a") -> int:
    return sum(spam.passes(regarding, "Normal", now) for _ in range(count))


def test_the_last_events_are_kept_for_what_happens_to_the_object_as_a_whole() -> None:
    spam = SpamFilter()
    many = [spam.passes("a", "Normal", 1000.0, one_of_many=True) for _ in range(BURST)]
    assert sum(many) == BURST - RESERVED
    assert passed(spam, BURST, 1000.0) == RESERVED


def test_a_burst_passes_and_then_one_each_five_minutes():
    spam = SpamFilter()
    assert passed(spam, BURST + 5, 1000.0) == BURST
    assert passed(spam, 5, 1000.0 + REFILL - 1) == 0
    assert passed(spam, 5, 1000.0 + REFILL) == 1
    assert passed(spam, 5, 1000.0 + 2.5 * REFILL) == 1
    assert passed(spam, 5, 1000.0 + 3 * REFILL) == 1, "halves add up"


def test_the_bucket_used_longest_ago_is_discarded(monkeypatch):
    monkeypatch.setattr(series, "CAPACITY", 2)
    spam = SpamFilter()
    for regarding in ("a", "b", "a", "c"):
        passed(spam, BURST, 0.0, regarding)
    assert passed(spam, 1, 0.0, "a") == 0
    assert passed(spam, 1, 0.0, "c") == 0
    assert passed(spam, 1, 0.0, "b") == 1, "forgotten, so full again"
