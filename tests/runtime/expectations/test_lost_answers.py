"""How expectations settle writes whose answers were lost, and what they count of that."""

from __future__ import annotations

from controller.kube.resources import CONFIG_MAPS, PODS
from controller.runtime.plan import Create, Failure, LiveList, ReplicaMember
from tests.runtime.kit import OWNER, Book, child, create, delete, patch, target


def refuse(book: Book) -> None:
    """Lose the answer to a change that a live read has refuted once before."""
    failure = Failure(patch("a"), "InternalError", "a webhook is down", unknown=True)
    book.show(child("a", 9))
    book.expectations.expect(OWNER, patch("a"))
    book.expectations.mark_unknown(OWNER, patch("a"), failure)
    book.answer("a", child("a", 9))
    book.expectations.expect(OWNER, patch("a"))
    book.expectations.mark_unknown(OWNER, patch("a"), failure)


def test_a_create_that_the_store_shows_counts_as_a_member_of_its_replica():
    book = Book()
    write = Create(target("a"), {}, member=ReplicaMember("r", 0, 2))
    book.expectations.expect(OWNER, write)
    book.expectations.mark_unknown(OWNER, write)
    book.show(child("a", 10))
    assert book.expectations.reader.record(OWNER.uid).replicas == {"r": 1}
    assert book.entries == 0


def test_a_change_that_was_refuted_is_read_live_as_soon_as_its_object_is_gone():
    book = Book()
    refuse(book)
    book.remove(child("a", 9, terminating=True), 10)
    assert book.questions == ["a"]


def test_a_deletion_whose_answer_was_lost_is_settled_once_the_store_shows_it():
    book = Book()
    book.show(child("a", 2))
    book.expectations.expect(OWNER, delete("a"))
    book.expectations.mark_unknown(OWNER, delete("a"))
    assert book.pending()
    book.show(child("a", 5, terminating=True))
    assert (book.pending(), book.entries) == (frozenset(), 0)


def test_what_a_live_read_found_terminating_is_gone_once_the_store_has_passed_it():
    book = Book()
    book.show(child("a", 2))
    book.unmake("a")
    book.answer("a", child("a", 10, terminating=True))
    book.remove(child("a", 2), 20)
    assert (book.names(), book.entries, book.questions) == ([], 0, [])


def test_between_a_change_of_the_store_and_its_news_the_store_counts():
    book = Book()
    book.make("a", 10)
    book.store.put(child("a", 12, owner="uid-else"))
    assert (book.names(), book.names("uid-else")) == ([], ["a"])
    book.expectations.overlay(CONFIG_MAPS).observe_change("default/a")
    assert book.entries == 0


def test_a_create_outdates_what_was_listed_of_its_resource_before_its_answer():
    book = Book()
    lookups = [LiveList(resource, "default", "a=b") for resource in (CONFIG_MAPS, PODS)]
    for lookup in lookups:
        book.expectations.record(OWNER.uid).lists.add(lookup)
    book.expectations.expect(OWNER, create("a"))
    reads = book.expectations.reader
    assert [reads.record(OWNER.uid).has_listed(lookup) for lookup in lookups] == [False, True]


def test_a_change_of_others_does_not_settle_a_deletion_whose_answer_was_lost():
    book = Book()
    book.show(child("a", 2))
    book.sent(delete("a"))
    book.lost(delete("a"))
    book.show(child("a", 3))
    assert book.pending()
    book.show(child("a", 4, uid="uid-next"))
    assert not book.pending()
