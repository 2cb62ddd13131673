"""What follows from a live read, and what follows if nobody listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controller.kube.resources import CONFIG_MAPS, PODS, SERVICES
from controller.runtime.expectations.expectations import Expectations
from controller.runtime.expectations.owners import Owner
from controller.runtime.reconcile.plan import Create, MergePatch, Target
from informers import Store
from tests.runtime.kit import NOW, OWNER, Book, child, create, patch

if TYPE_CHECKING:
    from controller.kube.objects import ConfigMap


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


def test_what_the_store_settles_wakes_the_owners_at_once():
    book = RetryBook()
    book.expectations.mark_unknown(OWNER, create("a"))
    book.show(child("a", 10))
    assert (book.woken, book.retried) == ([OWNER], [])


def test_EXP24_an_object_outside_the_selection_wakes_its_owners_only_when_it_changes():
    book = Book()
    book.show(child("a", 2))
    book.remove(child("a", 2), 20)
    for revision, news in [(9, True), (9, False), (11, True), (11, False), (None, True)]:
        book.woken.clear()
        book.answer("a", None if revision is None else child("a", revision))
        assert (book.woken == [OWNER]) is news


def test_each_live_read_is_a_change():
    book = Book()
    book.make("a", 10)
    expectation = book.expectations.get(book.ledger_reference("a"))
    assert expectation is not None
    before = expectation.version
    for number in (1, 2, 3):
        book.answer("a", child("a", 10))
        assert (expectation.version, expectation.live_reads) == (before + number, number)


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


def test_EXP45_what_existed_already_is_no_sign_of_an_older_server():
    book = Book(revision="100")
    signs: list[str] = []
    book.expectations.on_rewound = lambda revision, _sign: signs.append(revision)
    book.expectations.expect(OWNER, create("a"))
    book.expectations.confirm(OWNER, create("a"), child("a", 90))
    assert signs == []


def namespaced(book: Book) -> Store[ConfigMap]:
    """A cache of one namespace, of a resource that nobody else watches."""
    store: Store[ConfigMap] = Store({})
    store.replace([], "9")
    book.expectations.add_cache(PODS, "default", store, {})
    return store


def test_what_a_cache_of_one_namespace_shows_is_not_new():
    book = RetryBook()
    namespaced(book).put(child("a", 9))
    write = MergePatch(Target(PODS, "default", "a", "children"), "uid-a", {})
    book.expectations.mark_unknown(OWNER, write)
    (expectation,) = book.expectations._overlays.get(PODS).expectations()
    book.expectations.record_live_read(expectation, child("a", 9))
    assert (book.woken, book.retried) == ([], [OWNER])


def test_a_target_is_peeked_at_where_it_is_watched():
    book = Book()
    namespaced(book).put(child("a", 9))
    peek = book.expectations.peek
    assert peek(Target(PODS, "default", "a")) == child("a", 9)
    assert peek(Target(PODS, "else", "a")) is None
    assert peek(Target(SERVICES, "default", "a")) is None
    made = book.make("b", 10)
    assert peek(Target(CONFIG_MAPS, "default", "b")) is made


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
