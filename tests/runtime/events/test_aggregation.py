"""What a person reads about many like writes is one sentence."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from controller.runtime.event_series import MAX_JOINED, aggregate_events
from controller.runtime.plan import Event, Plan
from tests.runtime.kit import create
from tests.runtime.reconcile.test_executor import Bench


def made(name: str, *, reason: str = "CreatedWorkerPod") -> Event:
    return Event(
        "Normal", reason, "Create", f"Created pod {name}", aggregate_note="Created {count} pods"
    )


def test_an_event_that_has_no_like_stays_as_it_is():
    assert list(aggregate_events([made("p")])) == [made("p")]


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


def test_batches_of_one_size_are_told_in_the_same_words():
    first, second = ([made(f"{batch}{n}") for n in range(64)] for batch in "ab")
    assert list(aggregate_events(first)) == list(aggregate_events(second)), (
        "so they become one series"
    )


async def test_a_batch_is_told_as_one_event_even_if_it_was_interrupted():
    bench = Bench()
    writes = tuple(create(f"b{n}") for n in range(20))
    writes = tuple(type(w)(w.target, w.body, on_success=made(w.target.name)) for w in writes)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3.5 * bench.client.seconds):
            await bench.execute(Plan(stages=(writes,)))
    assert bench.emitted == ["CreatedWorkerPod"], "for the 1 + 2 + 4 that were made"
