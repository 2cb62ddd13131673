"""What each event and each list makes of the store, the quarantine and the notifications."""

from __future__ import annotations

import pytest

from informers.processor import Added, Deleted, Processor
from informers.store import Ignored, Removed, Replaced, Store, Undecodable, Upserted
from tests.informers.doubles import Meta, Thing

A5 = Thing(Meta("a", "ns", "uid-a", "5"), "red")
A6 = Thing(Meta("a", "ns", "uid-a", "6"), "blue")
SECOND = Thing(Meta("a", "ns", "second", "6"), "blue")
ODD = Undecodable("ns/a", "uid-a", "6", "odd")


@pytest.fixture
def store() -> Store[Thing]:
    return Store({})


@pytest.fixture
def processor(store: Store[Thing]) -> Processor[Thing]:
    return Processor(store)


@pytest.fixture
def holding(processor: Processor[Thing]) -> Processor[Thing]:
    """One whose store holds an object."""
    assert processor.replace(Replaced([A5], (), "5")) == [Added(A5, initial=True)]
    return processor


def test_what_is_ignored_notifies_nobody(processor: Processor[Thing]):
    assert processor.apply(Ignored("odd")) == []


def test_a_list_proves_what_an_event_brought_before_it(processor: Processor[Thing]):
    processor.apply(Upserted(A5))
    again = Thing(A5.metadata, "as stored elsewhere")
    assert processor.replace(Replaced([again], (), "5")) == []


def test_a_successor_follows_the_end_of_its_predecessor(holding: Processor[Thing]):
    assert holding.apply(Upserted(SECOND)) == [Deleted(A5), Added(SECOND)]


def test_the_end_of_a_successor_is_that_of_its_predecessor_too(holding: Processor[Thing]):
    assert holding.apply(Removed(SECOND)) == [Deleted(A5), Deleted(SECOND)]


def test_what_has_gone_is_no_longer_in_quarantine(holding: Processor[Thing]):
    holding.apply(ODD)
    assert holding.quarantined == {"ns/a": ODD}
    assert holding.apply(Removed(A6)) == [Deleted(A6)]
    assert holding.quarantined == {}


def test_the_quarantine_tells_which_index_failed():
    processor = Processor(Store[Thing]({"picky": lambda obj: [obj.colour.nothing]}))
    processor.apply(Upserted(A5))
    assert processor.quarantined["ns/a"].reason.startswith("index 'picky' on ns/a: AttributeError")


OLD = Thing(Meta("b", "ns", "uid-b", "4"), "red")
NEW = Thing(Meta("b", "ns", "uid-b", "7"), "red")
OTHER = Thing(Meta("a", "ns", "uid-a", "4"), "green")


@pytest.mark.parametrize("listed", [[], [A5], [A6], [A5, NEW]])
def test_a_list_may_lack_or_show_anew_what_has_changed_since(
    holding: Processor[Thing], listed: list[Thing]
):
    assert holding.contradiction(Replaced(listed, (), "9")) == ""


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ([A5, OLD], "ns/b has been at 4, and the store at 5 has not shown it"),
        ([A6, OLD], "ns/b has been at 4, and the store at 5 has not shown it"),
        ([OTHER], "ns/a has been at 4, and the store at 5 has not shown it"),
    ],
)
def test_a_list_of_another_history_shows_what_the_store_would_have_shown(
    holding: Processor[Thing], listed: list[Thing], told: str
):
    assert holding.contradiction(Replaced(listed, (), "9")) == told


def test_nothing_contradicts_a_store_that_was_never_filled(processor: Processor[Thing]):
    assert processor.contradiction(Replaced([A5], (), "9")) == ""


def test_an_object_that_was_in_quarantine_contradicts_nothing(holding: Processor[Thing]):
    holding.apply(ODD)
    assert holding.contradiction(Replaced([A6], (), "9")) == ""
