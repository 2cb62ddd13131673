"""Single expectations, as a person sees them."""

from __future__ import annotations

from controller.runtime.expectations.owners import Owner
from controller.runtime.expectations.reader import ExpectationSnapshot
from controller.runtime.plan import Failure
from tests.runtime.kit import OWNER, Book, child, create, delete, patch

OTHER = Owner("uid-other", "default/g", "widgets")


def entry(name: str, **differences: object) -> ExpectationSnapshot:
    """What is shown of an object about which nothing more is to be said."""
    usual = {"awaited": "", "kept": "", "seconds": 0.0, "live_reads": 0, "error": ""}
    shown = usual | {"object": f"configmaps default/{name}", "owners": (OWNER,)} | differences
    return ExpectationSnapshot(**shown)  # type: ignore[arg-type]


def test_it_is_said_what_each_one_awaits_and_for_how_long():
    book = Book()
    for name in ("c", "d"):
        book.show(child(name, 2))
    book.expectations.expect(OWNER, create("a"))
    book.time = 1.0
    book.expectations.expect(OWNER, patch("c", x="y"))
    book.time = 2.0
    book.make("b", 10)
    book.time = 4.0
    book.unmake("d")
    book.time = 10.0
    assert book.expectations.snapshot(10) == [
        entry("a", awaited="answer of create", seconds=10.0),
        entry("c", awaited="answer of update", seconds=9.0),
        entry("b", awaited="cache shows write", seconds=8.0),
        entry("d", awaited="cache shows deletion", seconds=6.0),
    ]


def test_it_is_said_which_one_only_a_live_read_can_tell():
    book = Book()
    book.show(child("b", 2))
    book.make("a", 10)
    book.time = 1.0
    book.unmake("b")
    book.bookmark(20)
    for each in list(book.expectations._overlays.all()):
        for expectation in each.expectations.values():
            expectation.needs_live_read = True
    book.time = 5.0
    assert book.expectations.snapshot(10) == [
        entry("a", awaited="live read after write", seconds=5.0),
        entry("b", awaited="live read after deletion", seconds=4.0),
    ]


def test_of_an_unknown_outcome_its_error_is_told_and_when_it_was_first_asked_for():
    book = Book()
    failure = Failure(delete("a"), "InternalError", "etcd said no")
    book.show(child("a", 2))
    book.time = 3.0
    for _ in range(2):
        book.expectations.expect(OWNER, delete("a"))
        book.time += 2.0
        book.expectations.mark_unknown(OWNER, delete("a"), failure)
    (shown,) = book.expectations.snapshot(10)
    error = "InternalError: etcd said no"
    assert shown == entry("a", awaited="outcome of delete", seconds=4.0, error=error)


def test_what_is_kept_says_why_comes_last_and_counts_from_its_last_change():
    book = Book()
    book.expectations.name_conflict(OWNER, create("taken"))
    book.expectations.admission_mismatch(OWNER, create("b"), "a label is gone", blocking=False)
    book.expectations.record_lookup(OWNER, create("absent").target, None)
    book.time = 3.0
    book.make("young", 10)
    book.time = 8.0
    assert book.expectations.snapshot(10) == [
        entry("young", awaited="cache shows write", seconds=5.0),
        entry("taken", kept="name is taken", seconds=8.0),
        entry("b", kept="admission: a label is gone", seconds=8.0),
        entry("absent", kept="looked up, not found", seconds=8.0),
    ]


def test_what_left_the_selection_says_so():
    book = Book()
    book.show(child("a", 5))
    book.remove(child("a", 5), 6)
    book.time = 2.0
    book.answer("a", child("a", 6))
    book.time = 9.0
    (shown,) = book.expectations.snapshot(10)
    assert shown.kept == "outside of the selection"
    assert not shown.awaited
    assert shown.seconds == 7.0


def test_why_one_that_awaits_something_would_be_kept_is_not_said_yet():
    book = Book()
    book.make("a", 10)
    book.time = 3.0
    book.expectations.admission_mismatch(OWNER, create("a"), "a label is gone", blocking=False)
    book.time = 5.0
    assert book.expectations.snapshot(10) == [entry("a", awaited="cache shows write", seconds=5.0)]


def test_live_reads_are_counted():
    book = Book()
    book.expectations.expect(OWNER, create("a"))
    book.expectations.mark_unknown(OWNER, create("a"))
    expectation = book.expectations.get(book.reference("a"))
    assert expectation is not None
    expectation.live_reads = 3
    (shown,) = book.expectations.snapshot(10)
    assert shown.live_reads == 3


def test_all_owners_are_named():
    book = Book()
    book.expectations.add_owner(OTHER)
    book.make("a", 10)
    book.expectations.name_conflict(OTHER, create("a"))
    (shown,) = book.expectations.snapshot(10)
    assert shown.owners == (OWNER, OTHER)


def test_of_many_the_oldest_are_shown():
    book = Book()
    for number in range(5):
        book.time = float(number)
        book.make(f"a{4 - number}", 10 + number)
    shown = book.expectations.snapshot(2)
    assert [each.object for each in shown] == ["configmaps default/a4", "configmaps default/a3"]
