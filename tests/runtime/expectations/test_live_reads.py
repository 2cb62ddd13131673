"""What an owner must find out by a live read, what follows, and what if nobody listens."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from controller.kube.objects import ConfigMap
from controller.kube.resources import CONFIG_MAPS, PODS
from controller.runtime.plan import Create, Failure, MergePatch, Target, Write
from controller.runtime.record import Owner
from informers import Store
from tests.runtime.kit import OWNER, Book, child, create, delete, patch

STRANGER = Owner("uid-stranger", "default/g", "widgets")


@pytest.mark.parametrize(("shown", "found"), [(None, None), (None, 10), (9, 9), (9, 10), (9, None)])
def test_what_became_of_a_write_is_planned_for_at_once(shown: int | None, found: int | None):
    book = Book()
    if shown is not None:
        book.show(child("a", shown))
    book.expectations.mark_unknown(OWNER, patch("a"))
    book.answer("a", None if found is None else child("a", found))
    assert book.woken == [OWNER]


def test_an_object_outside_the_selection_wakes_its_owners_only_when_it_changes():
    book = Book()
    book.show(child("a", 2))
    book.remove(child("a", 2), 20)
    for revision, news in [(9, True), (9, False), (11, True), (11, False), (None, True)]:
        book.woken.clear()
        book.answer("a", None if revision is None else child("a", revision))
        assert (book.woken == [OWNER]) is news


@pytest.mark.parametrize("revision", [50, 40])
def test_what_the_store_held_itself_is_no_sign_of_an_older_server(revision: int):
    book = Book()
    signs: list[str] = []
    book.expectations.on_rewound = lambda _resource, sign: signs.append(sign)
    book.show(child("a", 50))
    book.bookmark(100)
    book.expectations.expect(OWNER, patch("a"))
    book.answer("a", child("a", revision))
    book.expectations.expect(OWNER, patch("a"))
    book.expectations.precondition_failed(OWNER, patch("a"), child("a", revision))
    book.expectations.precondition_failed(OWNER, patch("a"), None)
    expected = "configmaps default/a is at 40, the store was at 100 before"
    assert signs == ([] if revision == 50 else [expected] * 2)


def namespaced(book: Book) -> Store[ConfigMap]:
    """A cache of one namespace, of a resource that nobody else watches."""
    store: Store[ConfigMap] = Store({})
    store.replace([], "9")
    book.expectations.overlay(PODS).add_cache("default", store, {})
    return store


def found_outside(book: Book) -> bool:
    """Read a written pod live; whether its owner is told that the cache does not show it."""
    write = MergePatch(Target(PODS, "default", "a", "children"), "uid-a", {})
    book.expectations.name_conflict(OWNER, write)
    (expectation,) = book.expectations.all()
    book.expectations.record_live_read(expectation, child("a", 5, owner="uid-else"))
    return bool(book.expectations.reader.record(OWNER.uid).consistency_warnings)


def test_a_cache_of_one_namespace_that_has_passed_an_object_does_not_select_it():
    book = Book()
    namespaced(book)
    assert found_outside(book)
    (said,) = book.expectations.reader.record(OWNER.uid).consistency_warnings
    assert said == "pods default/a exists but is not in the watched selection", "it is another's"


def lose(book: Book, write: Write, *, told: bool = True) -> bool:
    """Send a write that gets no answer; whether its object is to be read live at once."""
    book.expectations.expect(OWNER, write)
    failure = Failure(write, "InternalError", "no", unknown=True) if told else None
    book.expectations.mark_unknown(OWNER, write, failure)
    return bool(book.questions)


def refuted(write: Write) -> Book:
    """After a live read has shown that the write was not carried out."""
    book = Book()
    book.show(child("a", 9))
    assert lose(book, write)
    assert book.expectations.reader.record(OWNER.uid).pending_scopes
    book.answer("a", child("a", 9))
    return book


def due(book: Book) -> float:
    return book.next_question()


def test_a_change_that_fails_as_before_is_read_live_only_if_it_is_not_repeated():
    book = refuted(patch("a"))
    reader = book.expectations.reader
    for book.time in (1.0, 50.0):
        assert not lose(book, patch("a", key="another"))
        assert not reader.record(OWNER.uid).pending_scopes, "it may be planned again"
        assert due(book) == 120.0
    book.time = 170.0
    assert due(book) == 0.0
    (failure,) = book.expectations.record(OWNER.uid).overdue_failures(book.time)
    assert failure.message == "no"


def test_what_was_presumed_is_read_live_when_the_object_has_changed():
    book = refuted(patch("a"))
    lose(book, patch("a"))
    book.show(child("a", 12))
    assert book.questions == ["a"]
    assert book.expectations.reader.record(OWNER.uid).pending_scopes
    assert due(book) == 0.0


def owned(name: str) -> Create:
    """A create that asks for an owner."""
    reference = {"kind": "Widget", "name": "f", "uid": OWNER.uid, "controller": True}
    body = {"metadata": {"name": name, "ownerReferences": [reference]}}
    return Create(create(name).target, body)


def test_what_admission_gives_another_owner_is_disowned_until_it_is_created_as_it_should_be():
    book = Book()
    book.expectations.add_owner(OWNER)
    is_disowned = book.expectations.record(OWNER.uid).is_disowned
    for owner, disowned in (("uid-nobody", True), (OWNER.uid, False)):
        book.expectations.expect(OWNER, owned("a"))
        book.expectations.confirm(OWNER, owned("a"), child("a", 10, owner=owner), created=True)
        assert is_disowned(owned("a")) is disowned


def test_what_another_writer_gives_another_owner_is_disowned():
    book = Book()
    book.expectations.add_owner(OWNER)
    observe = book.expectations.observe_owner_change
    observe(CONFIG_MAPS, child("a", 1), child("a", 2))
    observe(CONFIG_MAPS, child("b", 1, owner="uid-nobody"), child("b", 2))
    assert not book.expectations.record(OWNER.uid).is_disowned(create("a"))
    assert not book.expectations.record(OWNER.uid).is_disowned(create("b"))
    nobodys = child("a", 3)
    metadata = msgspec.structs.replace(nobodys.metadata, owner_references=())
    observe(CONFIG_MAPS, child("a", 2), msgspec.structs.replace(nobodys, metadata=metadata))
    assert not book.expectations.record(OWNER.uid).is_disowned(create("a")), "nobody collects that"
    observe(CONFIG_MAPS, child("a", 2), child("a", 3, owner="uid-nobody"))
    assert book.expectations.record(OWNER.uid).is_disowned(create("a"))
    assert not book.expectations.record(OWNER.uid).is_disowned(create("b"))


def test_a_deletion_of_unknown_outcome_is_sent_again_anyway():
    book = Book()
    book.show(child("a", 9))
    is_repeated = book.expectations.record(OWNER.uid).is_repetition
    assert not is_repeated(delete("a"))
    book.expectations.expect(OWNER, delete("a"))
    assert not is_repeated(delete("a")), "it was sent for the first time"
    book.expectations.mark_unknown(OWNER, delete("a"))
    assert is_repeated(delete("a"))
    book.expectations.expect(OWNER, delete("a"))
    assert is_repeated(delete("a")), "the repetition is in flight"
    stranger = book.expectations.record(STRANGER.uid)
    assert not stranger.is_repetition(delete("a"))
    assert not is_repeated(delete("a", uid="uid-namesake"))
    assert not is_repeated(patch("a"))
    book.expectations.mark_unknown(OWNER, patch("a"))
    assert not is_repeated(delete("a")), "that will be read live"


def asked(book: Book, owner: Owner = OWNER) -> tuple[list[str], list[str]]:
    """The names that are sent again, and those that are read."""
    book.owned_by(owner)
    found = book.expectations.record(owner.uid).questions(book.time)
    return [each.target.name for each in found.repeats], [each.name for each in found.reads]


def lost(write: Write) -> Book:
    book = Book()
    book.show(child("a", 2))
    book.sent(write)
    assert asked(book) == ([], []), "its answer may come"
    book.lost(write)
    return book


@pytest.mark.parametrize("write", [create("a", owner="another"), delete("a")])
def test_a_create_or_delete_whose_answer_was_lost_is_sent_again(write: Write):
    book = Book()
    book.sent(write)
    book.lost(write)
    assert asked(book) == (["a"], [])
    assert book.expectations.record(OWNER.uid).is_repetition(write)
    book.sent(write)
    assert asked(book) == ([], []), "it is in flight"


def test_a_change_is_never_sent_again():
    book = lost(patch("a"))
    assert asked(book) == ([], ["a"])
    assert not book.expectations.record(OWNER.uid).is_repetition(patch("a"))


def test_nothing_is_created_again_for_an_owner_that_is_being_deleted():
    book, gone = Book(), replace(OWNER, terminating=True)
    book.sent(create("a"))
    book.lost(create("a"))
    assert asked(book, gone) == ([], ["a"])
    assert not book.expectations.record(gone.uid).is_repetition(create("a"))


def test_what_was_to_be_deleted_for_another_generation_is_not_deleted_again():
    book, edited = lost(delete("a")), replace(OWNER, generation=1)
    assert asked(book, edited) == ([], ["a"])
    assert not book.expectations.record(edited.uid).is_repetition(delete("a")), (
        "it may be planned anew"
    )


def test_a_repetition_does_not_change_for_which_generation_a_delete_was_planned():
    book, edited = lost(delete("a")), replace(OWNER, generation=1)
    book.sent(delete("a"), edited)
    book.lost(delete("a"), edited)
    assert asked(book, edited) == ([], ["a"])


def test_each_owner_finds_out_about_its_own_write():
    other = replace(OWNER, uid="uid-other", key="default/g")
    book = lost(patch("a"))
    book.owned_by(other)
    book.sent(delete("a"), other)
    assert asked(book) == ([], []), "the object may change in a moment"
    book.lost(delete("a"), other)
    assert (asked(book), asked(book, other)) == (([], ["a"]), (["a"], []))
    assert book.pending() == book.pending(other.uid) == {"children"}
    book.gone()
    assert asked(book, other) == (["a"], [])


def test_what_one_owner_is_answered_leaves_the_unknown_write_of_another():
    other = replace(OWNER, uid="uid-other", key="default/g")
    book = lost(patch("a"))
    book.owned_by(other)
    book.done(patch("a"), child("a", 9), other)
    assert (asked(book), asked(book, other)) == (([], ["a"]), ([], []))
    book.answer("a", child("a", 9))
    assert book.pending() == frozenset()


def test_the_owner_is_woken_when_the_next_read_is_due():
    book = Book()
    book.make("a", 10)
    book.time = 12.0
    assert book.expectations.record(OWNER.uid).questions(book.time).wait == 18.0
    book.time = 30.0
    assert asked(book) == ([], ["a"])
    book.show(child("a", 10))
    assert (asked(book), book.expectations.record(OWNER.uid).questions(book.time).wait) == (
        ([], []),
        None,
    )


def test_nothing_is_expected_of_a_write_that_failed():
    book = Book()
    book.sent(create("a"))
    book.expectations.mark_failed(OWNER, create("a"))
    assert (book.entries, book.pending()) == (0, frozenset())
