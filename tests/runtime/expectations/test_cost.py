"""What expectations look at when something happens: one entry, however many there are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controller.kube.resources import CONFIG_MAPS
from controller.runtime.expectations.owners import Owner
from tests.runtime.kit import OWNER, Book, child, create


def crowded(entries: int) -> Book:
    """A book in which another owner has so many writes that no cache shows yet."""
    book = Book()
    other = Owner("uid-other", "default/other", OWNER.controller)
    book.expectations.add_owner(other)
    for number in range(entries):
        write = create(f"other-{number}", owner=other.uid)
        book.expectations.expect(other, write)
        if number % 2:
            obj = child(f"other-{number}", 1000 + number, owner=other.uid)
            book.expectations.confirm(other, write, obj)
    return book


class Unlisted(dict[str, Any]):
    """Entries that nobody goes through."""

    def __iter__(self) -> Any:
        pytest.fail("goes through all entries")

    values = items = keys = __iter__  # type: ignore[assignment]


def looks(monkeypatch: pytest.MonkeyPatch, entries: int) -> Counter[str]:
    """How often entries are judged or fetched while one object is made, seen and read."""
    book = crowded(entries)
    counts: Counter[str] = Counter()
    overlay = book.expectations._overlays.get(CONFIG_MAPS)
    for holder, name in (
        (book.expectations._tracker, "_compare_with_store"),
        (overlay, "put"),
    ):
        inner = getattr(holder, name)

        def counted(*arguments, inner=inner, name=name):
            counts[name] += 1
            return inner(*arguments)

        monkeypatch.setattr(holder, name, counted)
    monkeypatch.setattr(overlay, "expectations", Unlisted(overlay.expectations))
    book.make("mine", 10)
    book.show(child("mine", 10))
    reads = book.expectations.reader
    assert reads.pending_scopes(OWNER.uid) == frozenset()
    assert book.names() == ["mine"]
    assert reads.consistency_warnings(OWNER.uid) == ()
    return counts


def test_an_event_costs_the_same_beside_two_thousand_own_writes_as_beside_none(
    monkeypatch: pytest.MonkeyPatch,
):
    alone = looks(monkeypatch, 0)
    assert alone["_compare_with_store"] > 0
    assert looks(monkeypatch, 2000) == alone
