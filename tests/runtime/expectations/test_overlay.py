"""Reads through the overlay, of store and own writes the newer, and what revisions are awaited."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.kube.objects import ObjectMeta
from controller.kube.resources import CONFIG_MAPS, PODS, SERVICES
from controller.runtime.kind import Unreadable
from controller.runtime.overlay import NotCached
from informers import Store, Undecodable
from tests.runtime.kit import OWNER, Book, child, create, delete


def test_what_nobody_watches_is_an_error_and_not_absent():
    book = Book()
    with pytest.raises(NotCached, match="pods are not watched"):
        book.expectations.reader.get(PODS, "default/a")
    with pytest.raises(NotCached, match="pods are not watched"):
        book.expectations.reader.by_index(PODS, "owner", "x")


def test_with_several_namespaces_each_is_read_from_its_own_cache_and_no_other():
    book = Book()
    reads = book.expectations.reader
    stores = {name: Store({"owner": lambda _o: ("x",)}) for name in ("one", "two")}
    for namespace, store in stores.items():
        store.replace([], "5")
        book.expectations.overlay(PODS).add_cache(namespace, store, {"owner": lambda _o: ("x",)})
    stores["one"].put(child("a", 6))
    assert reads.by_index(PODS, "owner", "x") == [child("a", 6)]
    assert reads.get(PODS, "two/a") is None
    with pytest.raises(NotCached, match="in namespace three"):
        reads.get(PODS, "three/a")


def test_what_a_cache_cannot_show_is_named_unless_it_shows_an_earlier_state():
    book = Book()
    keys = ("default/odd", "default/once-good", "else/odd")
    quarantined = {key: Undecodable(key, "u1", "4", "phase: not a str") for key in keys}
    store = Store({})
    store.replace([child("once-good", 3)], "5")
    book.expectations.overlay(SERVICES).add_cache("", store, {}, quarantined=quarantined)
    reads = book.expectations.reader
    meta = ObjectMeta(name="odd", namespace="default", uid="u1")
    assert reads.unreadable(SERVICES, "default") == {"odd": Unreadable(meta, "phase: not a str")}
    quarantined.clear()
    assert reads.unreadable(SERVICES, "default") == {}


@given(st.data())
def test_whatever_happens_in_which_order_reads_show_the_newest_that_is_known(data):
    """A server, a store that follows it late, and expectations that hear the answers."""
    book = Book(selective=False)
    history: list[tuple[int, str, bool]] = []  # revision, name, exists
    truth: dict[str, int] = {}
    answered: dict[str, tuple[int, bool]] = {}
    shown = 0
    for revision in range(2, 2 + data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from("ab"))
        if name not in truth:
            truth[name] = revision
            history.append((revision, name, True))
            book.expectations.confirm(
                OWNER, create(name), child(name, revision, uid=f"u{revision}")
            )
            answered[name] = (revision, True)
        else:
            uid = f"u{truth.pop(name)}"
            history.append((revision, name, False))
            book.expectations.confirm_delete(OWNER, delete(name, uid=uid))
            answered[name] = (revision, False)
        for _ in range(data.draw(st.integers(0, len(history) - shown))):
            at, what, exists = history[shown]
            shown += 1
            if exists:
                book.show(child(what, at, uid=f"u{at}"))
            else:
                last = book.store.get(f"default/{what}")
                assert last is not None
                book.remove(last, at)
        assert book.live() == sorted(truth), "own writes are always seen"
    while shown < len(history):
        at, what, exists = history[shown]
        shown += 1
        if exists:
            book.show(child(what, at, uid=f"u{at}"))
        else:
            book.remove(book.store.get(f"default/{what}"), at)
    assert book.names() == sorted(truth)
    assert book.entries == 0, "and nothing is left when the store has caught up"


def test_what_is_known_to_have_gone_is_not_believed_to_a_cache_that_shows_it_late():
    book = Book()
    made = book.make(revision=10)
    write = delete()
    book.expectations.expect(OWNER, write)
    book.expectations.confirm_gone(OWNER, write)
    assert book.names() == []
    book.bookmark(5)
    book.show(made)  # the cache has got as far as its creation, not to its end
    assert book.names() == []
    assert book.get() is None
    book.remove(made, 20)
    assert book.names() == []
    assert book.entries == 0


def test_an_object_is_asked_for_when_its_revision_is_passed_and_not_before():
    book = Book()
    for name, revision in [("c", 10), ("a", 9), ("b", 9), ("d", 100)]:
        book.make(name, revision)
    asked: list[str] = []
    for revision, more in [(8, ""), (9, "ab"), (99, "c"), (101, "d")]:
        book.bookmark(revision)
        asked += more
        assert sorted(book.questions) == asked


def test_a_revision_may_have_more_digits_than_python_converts():
    book = Book()
    obj = child("a")
    metadata = msgspec.structs.replace(obj.metadata, resource_version="1" * 5000)
    book.done(create("a"), msgspec.structs.replace(obj, metadata=metadata))
    overlay = book.expectations.overlay(CONFIG_MAPS)
    for revision, asked in [("2" * 4999, []), ("2" * 5000, ["a"])]:
        book.store.advance(revision)
        overlay.observe_revision("", revision)
        assert book.questions == asked
