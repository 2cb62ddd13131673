"""Expectations as a person sees them, their numbers, and what they cost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controller.kube.resources import CONFIG_MAPS
from controller.runtime.debug import ExpectationEntry
from controller.runtime.expectations import ExpectationStatistics
from controller.runtime.plan import Failure
from controller.runtime.record import Owner
from tests.runtime.kit import OWNER, Book, child, create, delete, patch

VALUE = 'not "hunter"'


def entry(name: str, **differences: object) -> ExpectationEntry:
    """What is shown of an object about which nothing more is to be said."""
    usual = {"awaited": "", "kept": "", "age": 0.0, "live_reads": 0, "cause": ""}
    owners = [f"{OWNER.controller} {OWNER.key}"]
    shown = usual | {"object": f"configmaps default/{name}", "owners": owners} | differences
    return ExpectationEntry(**shown)  # type: ignore[arg-type]


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
    assert book.expectations.snapshot().entries.items == [
        entry("a", awaited="answer of create", age=10.0),
        entry("c", awaited="answer of update", age=9.0),
        entry("b", awaited="cache shows write", age=8.0),
        entry("d", awaited="cache shows deletion", age=6.0),
    ]


def test_it_is_said_which_one_only_a_live_read_can_tell():
    book = Book()
    book.show(child("b", 2))
    book.make("a", 10)
    book.time = 1.0
    book.unmake("b")
    book.bookmark(20)
    for expectation in book.expectations.all():
        expectation.needs_live_read = True
    book.time = 5.0
    assert book.expectations.snapshot().entries.items == [
        entry("a", awaited="live read after write", age=5.0),
        entry("b", awaited="live read after deletion", age=4.0),
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
    (shown,) = book.expectations.snapshot().entries.items
    error = "InternalError: etcd said no"
    assert shown == entry("a", awaited="outcome of delete", age=4.0, cause=error)


def test_what_is_kept_says_why_comes_last_and_counts_from_its_last_change():
    book = Book()
    book.expectations.name_conflict(OWNER, create("taken"))
    book.expectations.admission_mismatch(OWNER, create("b"), "a label is gone", blocking=False)
    book.expectations.record_lookup(OWNER, create("absent").target, None)
    book.time = 3.0
    book.make("young", 10)
    book.time = 8.0
    assert book.expectations.snapshot().entries.items == [
        entry("young", awaited="cache shows write", age=5.0),
        entry("taken", kept="name is taken", age=8.0),
        entry("b", kept="admission: a label is gone", age=8.0),
        entry("absent", kept="looked up, not found", age=8.0),
    ]


def test_what_left_the_selection_says_so():
    book = Book()
    book.show(child("a", 5))
    book.remove(child("a", 5), 6)
    book.time = 2.0
    book.answer("a", child("a", 6))
    book.time = 9.0
    (shown,) = book.expectations.snapshot().entries.items
    assert shown.kept == "outside of the selection"
    assert not shown.awaited
    assert shown.age == 7.0


def test_no_value_is_quoted():
    book = Book()
    failure = Failure(create("b"), "Invalid", VALUE)
    book.expectations.admission_mismatch(OWNER, create("a"), VALUE, blocking=False)
    book.expectations.expect(OWNER, create("b"))
    book.expectations.mark_unknown(OWNER, create("b"), failure)
    unknown, kept = book.expectations.snapshot().entries.items
    assert (kept.kept, unknown.cause) == ('admission: not ""', 'Invalid: not ""')


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
        live_reads=0,
    )


def crowded(entries: int) -> Book:
    """A book in which another owner has so many writes that no cache shows yet."""
    book = Book()
    other = Owner("uid-other", "default/other", OWNER.controller)
    book.expectations.add_owner(other)
    for number in range(entries):
        write = create(f"other-{number}", owner=other.uid)
        book.expectations.expect(other, write)
        if number % 2:
            obj = child(f"other-{number}", 1000 + number, owner=other.uid)
            book.expectations.confirm(other, write, obj)
    return book


class Unlisted(dict[str, Any]):
    """Entries that nobody goes through."""

    def __iter__(self) -> Any:
        pytest.fail("goes through all entries")

    values = items = keys = __iter__  # type: ignore[assignment]


def looks(monkeypatch: pytest.MonkeyPatch, entries: int) -> Counter[str]:
    """How often entries are judged or fetched while one object is made, seen and read."""
    book = crowded(entries)
    counts: Counter[str] = Counter()
    overlay = book.expectations.overlay(CONFIG_MAPS)
    for name in ("_compare", "_put"):
        inner = getattr(overlay, name)

        def counted(*arguments, inner=inner, name=name):
            counts[name] += 1
            return inner(*arguments)

        monkeypatch.setattr(overlay, name, counted)
    monkeypatch.setattr(overlay, "expectations", Unlisted(overlay.expectations))
    book.make("mine", 10)
    book.show(child("mine", 10))
    reads = book.expectations.reader
    assert reads.record(OWNER.uid).pending_scopes == frozenset()
    assert book.names() == ["mine"]
    assert reads.record(OWNER.uid).consistency_warnings == ()
    return counts


def test_an_event_costs_the_same_beside_two_thousand_own_writes_as_beside_none(
    monkeypatch: pytest.MonkeyPatch,
):
    alone = looks(monkeypatch, 0)
    assert alone["_compare"] > 0
    assert looks(monkeypatch, 2000) == alone
