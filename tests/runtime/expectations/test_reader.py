"""What `observe` can ask about an owner."""

from __future__ import annotations

import pytest

from controller.kube.objects import ConfigMap
from controller.kube.resources import CONFIG_MAPS, PODS, SERVICES
from controller.runtime.kind import InstalledSchema
from controller.runtime.plan import (
    Failure,
)
from controller.runtime.record import Owner
from tests.runtime.kit import OWNER, Book, child, create, patch

STRANGER = Owner("uid-stranger", "default/g", "widgets")
UNKNOWN = "uid-unknown"


@pytest.fixture
def book() -> Book:
    book = Book()
    book.expectations.add_owner(STRANGER)
    return book


def test_a_taken_name_is_known_by_resource_and_owner(book: Book):
    reads = book.expectations.reader
    book.expectations.name_conflict(OWNER, create("a"))
    book.make("b", 10)
    assert reads.record(OWNER.uid).has_name_conflict(CONFIG_MAPS, "default/a")
    assert not reads.record(OWNER.uid).has_name_conflict(CONFIG_MAPS, "default/b")
    assert not reads.record(OWNER.uid).has_name_conflict(CONFIG_MAPS, "default/c")
    assert reads.record(OWNER.uid).name_conflicts(CONFIG_MAPS) == {"a"}
    assert reads.record(OWNER.uid).name_conflicts(SERVICES) == frozenset()
    assert reads.record(STRANGER.uid).name_conflicts(CONFIG_MAPS) == frozenset()


def test_what_a_plan_remembers_comes_with_what_was_created_since(book: Book):
    reads, expectations = book.expectations.reader, book.expectations

    def made(name: str, *, created: bool = True) -> ConfigMap:
        obj = child(name, 10)
        expectations.confirm(OWNER, create(name), obj, created=created)
        return obj

    made("before")
    assert (reads.record(OWNER.uid).memory, reads.record(OWNER.uid).created(CONFIG_MAPS)) == (
        None,
        (),
    )
    expectations.record(OWNER.uid).remember("first")
    found = (made("a"), made("b"))
    made("existed", created=False)
    assert reads.record(OWNER.uid).memory == "first"
    assert reads.record(OWNER.uid).created(CONFIG_MAPS) == found
    assert reads.record(OWNER.uid).created(SERVICES) == ()
    assert (reads.record(STRANGER.uid).memory, reads.record(STRANGER.uid).created(CONFIG_MAPS)) == (
        None,
        (),
    )
    expectations.record(OWNER.uid).remember("second")
    assert (reads.record(OWNER.uid).memory, reads.record(OWNER.uid).created(CONFIG_MAPS)) == (
        "second",
        (),
    )
    expectations.record(UNKNOWN).remember("nobody's")
    stranger = Owner(UNKNOWN, "default/x", "widgets")
    expectations.confirm(stranger, create("x"), child("x", 11), created=True)
    assert (reads.record(UNKNOWN).memory, reads.record(UNKNOWN).created(CONFIG_MAPS)) == (None, ())


def test_a_schema_that_nobody_reads_is_unknown(book: Book):
    reads = book.expectations.reader
    reads.installed_schemas = {PODS: InstalledSchema(error="refused")}
    assert reads.installed_schema(PODS) == InstalledSchema(error="refused")
    assert reads.installed_schema(SERVICES) == InstalledSchema()


def test_a_write_whose_answer_was_awaited_for_long_is_a_failure_at_once(book: Book):
    expectations = book.expectations
    failure = Failure(patch("a"), "OutcomeUnknown", "no answer", unknown=True)
    book.time = 100.0
    expectations.expect(OWNER, patch("a"))
    book.time = 130.0
    expectations.mark_unknown(OWNER, patch("a"), failure)
    assert len(expectations.record(OWNER.uid).overdue_failures(book.time)) == 1
    book.answer("a", child("a", 50))
    expectations.mark_unknown(OWNER, patch("a"), failure)
    assert expectations.record(OWNER.uid).overdue_failures(book.time) == (), (
        "that was another attempt"
    )


def test_a_schema_is_verified_for_all_objects_but_those_that_were_edited_since(book: Book):
    reads = book.expectations.reader
    assert reads.is_verified(PODS, "default/a")
    reads.unverified = {PODS: {"default/a"}}
    assert not reads.is_verified(PODS, "default/a")
    assert reads.is_verified(PODS, "default/b")
    assert reads.is_verified(SERVICES, "default/a")


def test_a_write_whose_outcome_stays_unknown_is_a_failure_after_a_moment(book: Book):
    expectations = book.expectations
    failure = Failure(create("a"), "InternalError", "webhook down", unknown=True)
    book.time = 100.0
    expectations.mark_unknown(OWNER, create("a"), failure)
    expectations.mark_unknown(OWNER, create("cut-off"))
    expectations.mark_unknown(STRANGER, create("theirs"), failure)
    book.make("b", 10)
    book.time = 104.9
    assert expectations.record(OWNER.uid).overdue_failures(book.time) == ()
    book.time = 105.0
    (found,) = expectations.record(OWNER.uid).overdue_failures(book.time)
    assert (found.overdue, found.message) == (True, "webhook down")
    book.expectations.mark_unknown(OWNER, create("a"), failure)
    assert len(expectations.record(OWNER.uid).overdue_failures(book.time)) == 1, (
        "a repetition begins nothing anew"
    )
