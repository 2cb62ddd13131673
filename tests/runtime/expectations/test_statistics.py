"""Numbers of all expectations."""

from __future__ import annotations

from controller.runtime.expectations.reader import ExpectationStatistics
from tests.runtime.kit import OWNER, Book, child, create, delete

NONE = ExpectationStatistics(
    owners=1,
    expectations=0,
    pending=0,
    unknown=0,
    oldest_age=0.0,
    oldest_unseen=0.0,
    need_live_read=0,
    corrections=0,
    live_reads=0,
    resolved_by={},
)


def test_where_nothing_is_expected_everything_is_zero():
    assert Book().expectations.statistics() == NONE


def test_each_number_counts_what_its_name_says():
    book = Book()
    for name in ("c", "d"):
        book.show(child(name, 2))
    book.make("a", 10)
    book.expectations.name_conflict(OWNER, create("taken"))
    book.time = 4.0
    for name in ("b", "e"):
        book.expectations.expect(OWNER, create(name))
        book.expectations.mark_unknown(OWNER, create(name))
    book.unmake("c")
    book.time = 7.0
    book.make("f", 20)
    book.bookmark(10)
    book.names()
    book.get("a")
    assert book.expectations.statistics() == ExpectationStatistics(
        owners=1,
        expectations=6,
        pending=5,
        unknown=2,
        oldest_age=7.0,
        oldest_unseen=7.0,
        need_live_read=1,
        corrections=2,
        live_reads=0,
        resolved_by={},
    )


def test_what_was_resolved_is_counted_by_what_resolved_it():
    book = Book()
    for name in ("a", "b"):
        book.make(name, 10)
    book.show(child("a", 10))
    book.show(child("b", 10))
    book.unmake("a")
    book.remove(child("a", 10), 11)
    book.make("c", 12)
    book.expectations.confirm_gone(OWNER, delete("c"), "uid-c")
    book.bookmark(12)
    for name in ("x", "y"):
        book.expectations.mark_unknown(OWNER, create(name))
        book.answer(name, None)
    counted = book.expectations.statistics()
    assert counted.resolved_by == {"object": 2, "uid": 2, "revision": 1, "live_read": 2}
    assert counted.live_reads == 2
