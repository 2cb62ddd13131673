"""How an expectation goes on: by answers, by live reads, and by what the store shows."""

from __future__ import annotations

from typing import Any

import pytest

from controller.runtime.expectation import Expectation
from controller.runtime.record import (
    FIRST_LIVE_READ,
    MAX_LIVE_READ_INTERVAL,
    OUTSIDE_INTERVAL,
)
from tests.runtime.kit import OWNER, Book, child, create, patch


def expectation(book: Book, name: str = "a") -> Expectation[Any]:
    found = book.expectations.get(book.reference(name))
    assert found is not None
    return found


def due(book: Book, name: str = "a") -> float:
    return book.next_question(name)


def test_live_reads_become_rarer_until_the_next_write():
    book = Book()
    book.time = 1000.0
    book.make("a", 10)
    assert due(book) == FIRST_LIVE_READ
    for interval in (60, 120, 240, 480, MAX_LIVE_READ_INTERVAL):
        book.answer("a", child("a", 10))
        assert due(book) == interval
    book.time = 1100.0
    assert due(book) == MAX_LIVE_READ_INTERVAL - 100
    book.expectations.confirm(OWNER, patch("a"), child("a", 11))
    assert due(book) == FIRST_LIVE_READ


def test_an_object_outside_the_selection_is_read_every_half_minute():
    book = Book()
    book.show(child("a", 2))
    book.remove(child("a", 2), 20)
    for _ in range(3):
        book.time += 100
        book.answer("a", child("a", 10))
        assert due(book) == OUTSIDE_INTERVAL
    assert len(book.warnings()) == 1
    book.expectations.expect(OWNER, patch("a"))
    book.show(child("a", 30))
    assert book.warnings() == (), "it is back"
    assert book.entries == 1


@pytest.mark.parametrize(
    ("found", "alive"),
    [
        (child("a", 10, terminating=True), False),
        (child("a", 10), True),
        (child("a", 10, uid="uid-next"), True),
        (child("a", 10, uid="uid-next", terminating=True), False),
    ],
    ids=["terminating", "restored", "a namesake", "a terminating namesake"],
)
def test_a_live_read_says_what_became_of_a_deletion(found: Any, alive: bool):
    book = Book()
    book.show(child("a", 2))
    book.unmake("a")
    book.answer("a", found)
    shown = book.get()
    assert shown is found
    assert (book.live() == ["a"]) is alive


def test_an_older_answer_does_not_replace_a_newer_one():
    book = Book()
    book.make("a", 10)
    book.expectations.confirm(OWNER, patch("a"), child("a", 12))
    book.expectations.confirm(OWNER, patch("a"), child("a", 11))
    shown = book.get()
    assert shown is not None
    assert shown.metadata.resource_version == "12"


def test_unseen_answers_have_an_age_from_the_first_on():
    book = Book()

    def unseen() -> float:
        return book.expectations.statistics().oldest_unseen

    book.expectations.expect(OWNER, create("a"))
    book.time = 10.0
    assert unseen() == 0, "nothing was answered"
    book.expectations.confirm(OWNER, create("a"), child("a", 10))
    book.time = 15.0
    book.expectations.confirm(OWNER, patch("a"), child("a", 12))
    assert unseen() == 5
    book.expectations.expect(OWNER, patch("a"))
    book.show(child("a", 12))
    assert unseen() == 0
    book.time = 20.0
    book.expectations.confirm(OWNER, patch("a"), child("a", 20))
    book.time = 21.0
    assert unseen() == 1, "a new answer, a new age"


def test_the_end_of_an_object_that_no_event_ever_showed_wakes_its_owner():
    book = Book()
    book.make("a", 10)
    book.unmake("a")
    book.woken.clear()
    book.relist([], 12)
    assert book.names() == []
    assert book.woken == [OWNER]
