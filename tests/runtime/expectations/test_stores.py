"""What the store shows of an expected object, and what that says."""

from __future__ import annotations

from controller.kube.resources import CONFIG_MAPS, PODS
from controller.runtime.plan import Create, Target
from informers import Store
from tests.runtime.kit import OWNER, Book, child, patch


def test_what_leaves_the_selection_while_it_is_written_is_kept():
    book = Book()
    book.show(child("a", 2))
    book.expectations.expect(OWNER, patch("a"))
    book.remove(child("a", 2), 5)
    assert (book.names(), book.questions) == (["a"], []), "its answer is still to come"
    book.done(patch("a"), child("a", 4))
    assert book.questions == ["a"]


def test_caches_are_not_selective_unless_they_say_so():
    book = Book()
    store: Store = Store({})
    store.replace([], "9")
    book.expectations.add_cache(PODS, "", store, {})
    book.expectations.observe_delete(PODS, child("a", 2))
    assert (book.questions, book.entries) == ([], 0)


def test_the_end_of_a_terminating_object_counts_whatever_was_returned_since():
    book = Book()
    book.show(child("a", 2, terminating=True))
    book.expectations.confirm(OWNER, patch("a"), child("a", 10, terminating=True))
    book.store.remove("default/a", "5")
    book.expectations.observe_delete(CONFIG_MAPS, child("a", 2, terminating=True))
    assert book.names() == []


def test_a_deletion_is_answered_with_the_deleted_object():
    book = Book()
    book.show(child("a", 2))
    book.unmake("a", answer=child("a", 5, terminating=True))
    shown = book.get()
    assert shown is not None
    assert shown.metadata.resource_version == "5"
    assert book.expectations.reader.revision(CONFIG_MAPS, OWNER.uid) == "5"


def test_a_namesake_in_the_answer_to_a_deletion_is_not_shown():
    book = Book()
    book.show(child("a", 2))
    book.unmake("a", answer=child("a", 5, uid="uid-other", terminating=True))
    shown = book.get()
    assert shown is not None
    assert (shown.metadata.uid, shown.metadata.terminating) == ("uid-a", True)
    assert book.expectations.reader.revision(CONFIG_MAPS, OWNER.uid) == "2"


def test_a_deletion_is_dated_by_the_time_of_day():
    book = Book()
    book.show(child("a", 2))
    book.unmake("a")
    shown = book.get()
    assert shown is not None
    assert shown.metadata.deletion_timestamp == "2026-01-01T00:00:00Z"


def test_what_no_cache_covers_is_not_expected_after_its_answer():
    book = Book()
    write = Create(Target(PODS, "default", "a", "children"), {})
    book.expectations.expect(OWNER, write)
    assert book.entries == 1
    book.expectations.confirm(OWNER, write, child("a", 10))
    assert book.entries == 0
    book.expectations.confirm_delete(OWNER, write, "uid-a")
    assert book.entries == 0
    book.expectations.record_lookup(OWNER, write.target, child("a", 10))
    assert book.entries == 0
