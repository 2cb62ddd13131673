"""What follows from a live read, and what follows if nobody listens."""

from __future__ import annotations

import pytest

from controller.kube.resources import CONFIG_MAPS, PODS
from controller.runtime.expectations.expectations import Expectations
from controller.runtime.expectations.owners import Owner
from controller.runtime.reconcile.plan import Create, Target
from informers import Store
from tests.runtime.kit import NOW, OWNER, Book, child, create, patch


class RetryBook(Book):
    """Tells owners that wait for the end of their back-off from those that are woken at once."""

    def __init__(self) -> None:
        super().__init__()
        self.retried: list[Owner] = []
        self.expectations.retry = self.retried.append


@pytest.mark.parametrize(
    ("shown", "found", "new"),
    [(None, None, False), (None, 10, True), (9, 9, False), (9, 10, True), (9, None, True)],
)
def test_a_write_that_was_not_carried_out_is_repeated_after_the_back_off(
    shown: int | None, found: int | None, new: bool
):
    book = RetryBook()
    if shown is not None:
        book.show(child("a", shown))
    book.expectations.mark_unknown(OWNER, patch("a"))
    book.answer("a", None if found is None else child("a", found))
    assert (book.woken, book.retried) == (([OWNER], []) if new else ([], [OWNER]))


def test_a_live_read_of_a_known_outcome_wakes_the_owners_at_once():
    book = RetryBook()
    book.make("a", 10)
    book.answer("a", child("a", 10))
    assert (book.woken, book.retried) == ([OWNER], [])


def test_what_no_cache_shows_is_settled_by_a_live_read_too():
    book = RetryBook()
    write = Create(Target(PODS, "default", "a", "children"), {})
    book.expectations.expect(OWNER, write)
    (expectation,) = book.expectations._overlays.get(PODS).expectations()
    book.expectations.mark_unknown(OWNER, write)
    book.expectations.record_live_read(expectation, None)
    assert book.retried == [OWNER]
    assert book.entries == 0


def test_all_controllers_that_have_the_owner_are_woken():
    book = Book()
    other = Owner(OWNER.uid, OWNER.key, "others")
    stranger = Owner("uid-stranger", "default/s", "widgets")
    book.expectations.add_owner(other)
    book.expectations.add_owner(stranger)
    book.make("a", 10)
    book.expectations.confirm(stranger, patch("a"), child("a", 11))
    book.answer("a", child("a", 11))
    assert book.woken == [OWNER, other, stranger]


@pytest.mark.parametrize("revision", [50, 40])
def test_EXP45_what_the_store_held_itself_is_no_sign_of_an_older_server(revision: int):
    book = Book()
    signs: list[tuple[str, str]] = []
    book.expectations.on_rewound = lambda revision, sign: signs.append((revision, sign))
    book.show(child("a", 50))
    book.bookmark(100)
    book.expectations.expect(OWNER, patch("a"))
    book.answer("a", child("a", revision))
    book.expectations.expect(OWNER, patch("a"))
    book.expectations.precondition_failed(OWNER, patch("a"), child("a", revision))
    book.expectations.precondition_failed(OWNER, patch("a"), None)
    expected = ("40", "configmaps default/a is at 40, the store was at 100 before")
    assert signs == ([] if revision == 50 else [expected] * 2)


def test_expectations_need_no_listener():
    store: Store = Store({})
    store.replace([], "50")
    expectations = Expectations(now=lambda: 0.0, wall=lambda: NOW)
    expectations.add_cache(CONFIG_MAPS, "", store, {})
    expectations.add_owner(OWNER)
    expectations.expect(OWNER, create("a"))
    expectations.confirm(OWNER, create("a"), child("a", 40), created=True)
    (expectation,) = expectations._overlays.get(CONFIG_MAPS).expectations()
    expectations.enqueue_owners(expectation)
    assert expectations.statistics().expectations == 1
