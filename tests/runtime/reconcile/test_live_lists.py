"""Live lists, and units that are made member by member: what planners are told of both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from controller.kube.resources import CONFIG_MAPS, PODS
from controller.runtime.expectations.owners import MOST_BEGUN, Account
from controller.runtime.reconcile.plan import LiveList, Member
from tests.runtime.kit import OWNER, Book, bird, create

if TYPE_CHECKING:
    from controller.runtime.reconcile.plan import Create

FLOCK = LiveList(CONFIG_MAPS, "default", "flock=f")


@pytest.fixture
def book() -> Book:
    return Book()


def member(name: str, position: int, size: int = 3) -> Create:
    return replace(create(name), member=Member("unit", position, size))


def made(book: Book, write: Create, revision: int) -> None:
    book.ledger.intend(OWNER, write)
    book.ledger.answered(OWNER, write, bird(write.target.name, revision))


def test_a_list_counts_until_something_of_its_resource_is_made(book: Book):
    reads = book.ledger.reads
    assert not reads.has_listed(FLOCK, OWNER.uid)
    book.ledger.listed(OWNER, FLOCK)
    book.ledger.listed(OWNER, LiveList(PODS, "default", "x=y"))
    assert reads.has_listed(FLOCK, OWNER.uid)
    assert not reads.has_listed(FLOCK, "another owner")
    assert not reads.has_listed(replace(FLOCK, label_selector="flock=g"), OWNER.uid)

    book.unmake("a")
    assert reads.has_listed(FLOCK, OWNER.uid), "what goes does not make a list incomplete"
    book.ledger.intend(OWNER, create("b"))
    assert not reads.has_listed(FLOCK, OWNER.uid)
    assert reads.has_listed(LiveList(PODS, "default", "x=y"), OWNER.uid)


def test_a_unit_is_remembered_from_its_first_member_to_the_one_before_the_last(book: Book):
    reads = book.ledger.reads
    assert reads.begun_units(OWNER.uid) == {}
    made(book, member("a", 0), 10)
    assert reads.begun_units(OWNER.uid) == {"unit": 1}
    book.ledger.intend(OWNER, member("b", 1))
    book.ledger.failed(OWNER, member("b", 1))
    assert reads.begun_units(OWNER.uid) == {"unit": 1}
    made(book, member("b", 1), 11)
    assert reads.begun_units(OWNER.uid) == {"unit": 2}
    made(book, member("c", 2), 12)
    assert reads.begun_units(OWNER.uid) == {}
    assert reads.begun_units("another owner") == {}


def test_a_member_whose_answer_was_lost_counts_once_the_cache_shows_it(book: Book):
    write = member("a", 0)
    book.ledger.intend(OWNER, write)
    book.ledger.lost(OWNER, write)
    assert book.ledger.reads.begun_units(OWNER.uid) == {}
    book.show(bird("a", 10))
    assert book.ledger.reads.begun_units(OWNER.uid) == {"unit": 1}


def test_units_and_lists_are_forgotten_with_their_owner(book: Book):
    made(book, member("a", 0), 10)
    book.ledger.listed(OWNER, FLOCK)
    book.ledger.forget(OWNER.controller, OWNER.key)
    book.ledger.enter(OWNER)
    assert book.ledger.reads.begun_units(OWNER.uid) == {}
    assert not book.ledger.reads.has_listed(FLOCK, OWNER.uid)


def test_what_is_left_of_units_that_failed_half_way_is_not_kept_for_ever():
    account = Account("default")
    account.has_made(Member("in hand", 0, size=3))
    for number in range(MOST_BEGUN - 1):
        account.has_made(Member(f"failed-{number}", 0, size=2))
    account.has_made(Member("in hand", 1, size=3))
    account.has_made(Member("another", 0, size=2))
    assert len(account.begun) == MOST_BEGUN
    assert account.begun["in hand"] == 2
    assert "failed-0" not in account.begun
