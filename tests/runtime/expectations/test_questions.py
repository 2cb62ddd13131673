"""What an owner must find out: lost creates and deletes are sent again, all else is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.kube.errors import OutcomeUnknown
from controller.runtime.expectations.owners import Owner
from controller.runtime.plan import Write
from tests.runtime.kit import OWNER, Book, ScriptedClient, child, create, delete, patch


def asked(book: Book, owner: Owner = OWNER) -> tuple[list[str], list[str]]:
    """The names that are sent again, and those that are read."""
    found = book.expectations.questions(owner)
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
    assert book.expectations.is_repeated(OWNER, write)
    book.sent(write)
    assert asked(book) == ([], []), "it is in flight"


def test_a_change_is_never_sent_again():
    book = lost(patch("a"))
    assert asked(book) == ([], ["a"])
    assert not book.expectations.is_repeated(OWNER, patch("a"))


def test_nothing_is_created_again_for_an_owner_that_is_being_deleted():
    book, gone = Book(), replace(OWNER, terminating=True)
    book.sent(create("a"))
    book.lost(create("a"))
    assert asked(book, gone) == ([], ["a"])
    assert not book.expectations.is_repeated(gone, create("a"))


def test_what_was_to_be_deleted_for_another_generation_is_not_deleted_again():
    book, edited = lost(delete("a")), replace(OWNER, generation=1)
    assert asked(book, edited) == ([], ["a"])
    assert not book.expectations.is_repeated(edited, delete("a")), "it may be planned anew"


def test_a_repetition_does_not_change_for_which_generation_a_delete_was_planned():
    book, edited = lost(delete("a")), replace(OWNER, generation=1)
    book.sent(delete("a"), edited)
    book.lost(delete("a"), edited)
    assert asked(book, edited) == ([], ["a"])


def test_a_deleted_object_that_has_left_the_store_is_read():
    book = lost(delete("a"))
    entry = book.expectations.get(book.reference("a"))
    assert entry is not None
    entry.needs_live_read = True
    assert asked(book) == ([], ["a"])


def test_nobody_asks_about_what_another_owner_has_written():
    other = replace(OWNER, uid="uid-other", key="default/g")
    book = Book()
    book.owned_by(other)
    book.sent(create("a"), other)
    book.lost(create("a"), other)
    assert asked(book) == ([], [])
    assert asked(book, other) == (["a"], [])


def test_the_write_of_an_owner_that_is_gone_is_read_by_the_one_that_is_left():
    other = replace(OWNER, uid="uid-other", key="default/g")
    book = lost(patch("a"))
    book.owned_by(other)
    book.sent(delete("a"), other)
    book.lost(delete("a"), other)
    assert asked(book) == ([], []), "who wrote last finds out"
    book.gone(other)
    assert asked(book) == ([], ["a"])


def test_the_owner_is_woken_when_the_next_read_is_due():
    book = Book()
    book.make("a", 10)
    book.time = 12.0
    assert book.expectations.questions(OWNER).wait == 18.0
    book.time = 30.0
    assert asked(book) == ([], ["a"])
    book.show(child("a", 10))
    assert (asked(book), book.expectations.questions(OWNER).wait) == (([], []), None)


async def test_a_lost_create_is_settled_by_its_repetition():
    book, client = Book(), ScriptedClient()
    client.objects["a"] = child("a", 50)
    book.sent(create("a"))
    book.lost(create("a"))
    await book.perform(client, create("a"))
    assert (asked(book), book.names(), book.pending()) == (([], []), ["a"], frozenset())


async def test_a_delete_without_an_answer_is_sent_again():
    book, client = Book(), ScriptedClient()

    def cut(_call: object) -> None:
        raise OutcomeUnknown("reset")

    client.script = cut  # type: ignore[assignment]
    await book.perform(client, delete("a"))
    assert asked(book) == (["a"], [])
