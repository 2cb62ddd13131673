"""Expectations of a resource of which each namespace has a cache of its own, or none any more."""

from __future__ import annotations

import pytest

from controller.kube.resources import CONFIG_MAPS, PODS
from controller.runtime.expectations.overlay import NotCached
from controller.runtime.plan import Create, Delete, Target
from informers import Store, Undecodable
from tests.runtime.kit import OWNER, Book, child

TARGET = Target(PODS, "default", "a", "children")


def watched(book: Book, *, quarantined: dict[str, Undecodable] | None = None) -> Store:
    """Watch pods in one namespace."""
    store: Store = Store({})
    store.replace([], "5")
    book.expectations.add_cache(PODS, "default", store, {}, quarantined=quarantined or {})
    return store


def test_the_cache_of_the_namespace_settles_what_was_created_in_it():
    book = Book()
    store = watched(book)
    book.expectations.confirm(OWNER, Create(TARGET, {}), child("a", 10))
    assert book.expectations.reader.get(PODS, "default/a") == child("a", 10)
    store.put(child("a", 10))
    book.expectations.observe_revision(PODS, "default", "10")
    assert book.entries == 0


def test_what_a_live_read_does_not_find_is_hidden_although_its_cache_shows_it():
    book = Book()
    watched(book).put(child("a", 6))
    book.expectations.expect(OWNER, Delete(TARGET, "uid-a"))
    (expectation,) = book.expectations._overlays.get(PODS).expectations.values()
    book.expectations.record_live_read(expectation, None)
    assert book.expectations.reader.get(PODS, "default/a") is None


def test_what_a_cache_of_one_namespace_cannot_show_is_named():
    book = Book()
    odd = {"default/odd": Undecodable("default/odd", "u1", "4", "phase: not a str")}
    watched(book, quarantined=odd)
    assert list(book.expectations.reader.unreadable(PODS, "default")) == ["odd"]


def test_a_cluster_scoped_object_that_its_cache_cannot_show_is_named():
    book = Book()
    store: Store = Store({})
    odd = {"odd": Undecodable("odd", "u1", "4", "phase: not a str")}
    book.expectations.add_cache(PODS, "", store, {}, quarantined=odd)
    assert list(book.expectations.reader.unreadable(PODS, "")) == ["odd"]


def test_only_what_is_watched_is_served():
    book = Book()
    assert book.expectations.reader.serves(CONFIG_MAPS)
    assert not book.expectations.reader.serves(PODS)


def test_nothing_is_expected_of_a_resource_that_the_server_has_no_more():
    book = Book()
    book.make("a", 10)
    book.expectations.remove_caches(CONFIG_MAPS)
    assert book.entries == 0
    assert not book.expectations.reader.serves(CONFIG_MAPS)
    with pytest.raises(NotCached, match="not watched"):
        book.get()
    book.expectations.remove_caches(PODS)


def test_no_schema_is_known_before_one_is_read():
    assert Book().expectations.reader.installed_schema(PODS).schema is None
