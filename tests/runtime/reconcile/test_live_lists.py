"""Live lists, and units that are made member by member: what planners are told of both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.kube.resources import CONFIG_MAPS, PODS
from controller.runtime.expectations.record import MAX_NAMES, Record
from controller.runtime.plan import Create, LiveList, ReplicaMember
from tests.runtime.kit import OWNER, Book, child, create

WIDGET = LiveList(CONFIG_MAPS, "default", "widget=f")


@pytest.fixture
def book() -> Book:
    return Book()


def member(name: str, position: int, size: int = 3) -> Create:
    return replace(create(name), member=ReplicaMember("unit", position, size))


def made(book: Book, write: Create, revision: int) -> None:
    book.expectations.expect(OWNER, write)
    book.expectations.confirm(OWNER, write, child(write.target.name, revision))


def test_a_list_counts_until_something_of_its_resource_is_made(book: Book):
    reads = book.expectations.reader
    assert not reads.record(OWNER.uid).has_listed(WIDGET)
    book.expectations.record(OWNER.uid).lists.add(WIDGET)
    book.expectations.record(OWNER.uid).lists.add(LiveList(PODS, "default", "x=y"))
    assert reads.record(OWNER.uid).has_listed(WIDGET)
    assert not reads.record("another owner").has_listed(WIDGET)
    assert not reads.record(OWNER.uid).has_listed(replace(WIDGET, label_selector="widget=g"))

    book.unmake("a")
    assert reads.record(OWNER.uid).has_listed(WIDGET), "what goes does not make a list incomplete"
    book.expectations.expect(OWNER, create("b"))
    assert not reads.record(OWNER.uid).has_listed(WIDGET)
    assert reads.record(OWNER.uid).has_listed(LiveList(PODS, "default", "x=y"))


def test_a_unit_is_remembered_from_its_first_member_to_the_one_before_the_last(book: Book):
    reads = book.expectations.reader
    assert reads.record(OWNER.uid).incomplete_replicas == {}
    made(book, member("a", 0), 10)
    assert reads.record(OWNER.uid).incomplete_replicas == {"unit": 1}
    book.expectations.expect(OWNER, member("b", 1))
    book.expectations.mark_failed(OWNER, member("b", 1))
    assert reads.record(OWNER.uid).incomplete_replicas == {"unit": 1}
    made(book, member("b", 1), 11)
    assert reads.record(OWNER.uid).incomplete_replicas == {"unit": 2}
    made(book, member("c", 2), 12)
    assert reads.record(OWNER.uid).incomplete_replicas == {}
    assert reads.record("another owner").incomplete_replicas == {}


def test_a_member_whose_answer_was_lost_counts_once_the_cache_shows_it(book: Book):
    write = member("a", 0)
    book.expectations.expect(OWNER, write)
    book.expectations.mark_unknown(OWNER, write)
    assert book.expectations.reader.record(OWNER.uid).incomplete_replicas == {}
    book.show(child("a", 10))
    assert book.expectations.reader.record(OWNER.uid).incomplete_replicas == {"unit": 1}


def test_units_and_lists_are_forgotten_with_their_owner(book: Book):
    made(book, member("a", 0), 10)
    book.expectations.record(OWNER.uid).lists.add(WIDGET)
    book.expectations.remove_owner(OWNER.controller, OWNER.key)
    book.expectations.add_owner(OWNER)
    assert book.expectations.reader.record(OWNER.uid).incomplete_replicas == {}
    assert not book.expectations.reader.record(OWNER.uid).has_listed(WIDGET)


def test_what_is_left_of_units_that_failed_half_way_is_not_kept_for_ever():
    account = Record(OWNER)
    account.record_member(ReplicaMember("in hand", 0, size=3))
    for number in range(MAX_NAMES - 1):
        account.record_member(ReplicaMember(f"failed-{number}", 0, size=2))
    account.record_member(ReplicaMember("in hand", 1, size=3))
    account.record_member(ReplicaMember("another", 0, size=2))
    assert len(account.incomplete_replicas) == MAX_NAMES
    assert account.incomplete_replicas["in hand"] == 2
    assert "failed-0" not in account.incomplete_replicas
