"""How an expectation goes on: by answers, by live reads, and by what the store shows."""

from __future__ import annotations

from typing import Any

from controller.runtime.expectations.expectation import Expectation
from controller.runtime.expectations.record import (
    FIRST_LIVE_READ,
    MAX_LIVE_READ_INTERVAL,
    MOST_OUTSIDE,
    OUTSIDE_INTERVAL,
)
from tests.runtime.kit import OWNER, Book, child, create, delete, patch


def expectation(book: Book, name: str = "a") -> Expectation[Any]:
    found = book.expectations.get(book.reference(name))
    assert found is not None
    return found


def due(book: Book, name: str = "a") -> float:
    return book.next_question(name)


def test_each_step_of_a_write_is_a_change():
    book = Book()
    book.expectations.expect(OWNER, create("a"))
    assert expectation(book).version == 1
    book.expectations.confirm(OWNER, create("a"), child("a", 10))
    assert expectation(book).version == 2
    book.expectations.mark_unknown(OWNER, patch("a"))
    assert expectation(book).version == 3


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


def test_a_revision_that_is_reached_counts_for_all_although_one_of_them_was_settled_before():
    book = Book()
    for name in "abc":
        book.make(name, 10)
    book.show(child("a", 5))
    book.expectations.confirm_gone(OWNER, delete("b"))
    book.expectations.remove_owner(OWNER.controller, OWNER.key)
    book.expectations.add_owner(OWNER)
    book.make("c", 10)
    book.bookmark(10)
    assert book.questions == ["c"]


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


def test_many_objects_outside_the_selection_are_read_no_more_often_than_one():
    book = Book()
    names = [f"pod-{number}" for number in range(MOST_OUTSIDE + 2)]
    for revision, name in enumerate(names, 2):
        book.show(child(name, revision))
    for revision, name in enumerate(names, 50):
        book.remove(child(name, revision), revision)
    for count, name in enumerate(names, 1):
        book.answer(name, child(name, 10))
        assert due(book, name) == OUTSIDE_INTERVAL * min(count, MOST_OUTSIDE)
    assert due(book, names[0]) == OUTSIDE_INTERVAL * MOST_OUTSIDE


def test_what_was_looked_up_is_shown_where_the_store_is_behind():
    book = Book()
    book.expectations.record_lookup(OWNER, create("a").target, child("a", 10))
    assert book.names() == ["a"]
    book.show(child("a", 10))
    assert book.entries == 0


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


def test_a_store_that_follows_is_not_overdue_however_long_it_is_behind():
    book = Book()
    book.expectations.confirm(OWNER, create("a"), child("a", 10))
    for second in range(1, 400):
        book.time = float(second)
        book.expectations.confirm(OWNER, patch("a"), child("a", 10 + second))
        book.show(child("a", 9 + second))
    assert book.expectations.statistics().oldest_unseen == 0
    book.time += 150
    assert book.expectations.statistics().oldest_unseen == 150


def test_the_end_of_an_object_that_no_event_ever_showed_wakes_its_owner():
    book = Book()
    book.make("a", 10)
    book.unmake("a")
    book.woken.clear()
    book.relist([], 12)
    assert book.names() == []
    assert book.woken == [OWNER]
