"""The shared informer from end to end, what each event makes of its store, and quorum reads."""

from __future__ import annotations

import asyncio

import pytest

from informers import HistoryChanged, InvalidResourceVersion
from informers.processor import Added, Deleted, Processor
from informers.store import Ignored, Removed, Replaced, Store, Upserted
from tests.informers.doubles import (
    Hang,
    Meta,
    Pause,
    Recorder,
    ScriptedSource,
    Thing,
    added,
    deleted,
    end_bookmark,
    informer_of,
    page,
    running,
    status,
    thing,
)


async def test_a_list_of_another_history_ends_the_informer_although_its_revision_is_higher():
    lists = [page([thing("a", 50)], 100), page([thing("a", 50), thing("b", 60)], 120)]
    source = ScriptedSource(lists=lists, watches=[[status(410, "Expired")], [Hang]])
    informer = informer_of(source, streaming=False)
    with pytest.raises(HistoryChanged) as raised:
        await informer.run()
    assert str(raised.value) == (
        "things in all namespaces: ns/b has been at 60, and the store at 100 has not shown it"
    )
    assert [each.metadata.name for each in informer.lister.list()] == ["a"]
    assert informer.resource_version == "100"


async def test_a_server_whose_revisions_are_no_numbers_is_refused():
    informer = informer_of(ScriptedSource(lists=[page([], "abc")]), streaming=False)
    with pytest.raises(InvalidResourceVersion, match="things in all namespaces: 'abc'"):
        await informer.run()


async def test_what_came_and_went_up_to_a_confirmed_revision_is_not_shown_again():
    late = [Pause(60.0), added("gone", 6), deleted("gone", 7), added("new", 10), Hang]
    source = ScriptedSource(lists=[page([], 5)], watches=[late])
    informer = informer_of(source, streaming=False)
    recorder, revisions = Recorder(), list[str]()
    informer.add_handler(recorder)
    informer.on_change(lambda _changes, revision: revisions.append(revision))
    async with running(informer):
        await informer.wait_for_sync()
        informer.advance("9")
        await asyncio.sleep(90)
    assert recorder.calls == [("add", "new", "10", False)]
    assert revisions == ["5", "9", "10"]


A5 = Thing(Meta("a", "ns", "uid-a", "5"), "red")
A6 = Thing(Meta("a", "ns", "uid-a", "6"), "blue")
SECOND = Thing(Meta("a", "ns", "second", "6"), "blue")


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


def test_a_successor_follows_the_end_of_its_predecessor(holding: Processor[Thing]):
    assert holding.apply(Upserted(SECOND)) == [Deleted(A5), Added(SECOND)]


def test_the_end_of_a_successor_is_that_of_its_predecessor_too(holding: Processor[Thing]):
    assert holding.apply(Removed(SECOND)) == [Deleted(A5), Deleted(SECOND)]


def test_the_quarantine_tells_which_index_failed():
    processor = Processor(Store[Thing]({"picky": lambda obj: [obj.colour.nothing]}))
    processor.apply(Upserted(A5))
    assert processor.quarantined["ns/a"].reason.startswith("index 'picky' on ns/a: AttributeError")


OLD = Thing(Meta("b", "ns", "uid-b", "4"), "red")
OTHER = Thing(Meta("a", "ns", "uid-a", "4"), "green")


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


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_the_first_streaming_list_is_a_quorum_read_that_began_with_its_request():
    stream = [Pause(5), added("a", 3), Pause(5), end_bookmark(9), Hang]
    source = ScriptedSource(watches=[stream])
    informer = informer_of(source)
    began = now()
    async with running(informer):
        await asyncio.sleep(9)
        assert informer.quorum_read is None, "the store does not show it yet"
        await asyncio.sleep(2)
        assert informer.quorum_read == began


async def test_a_streaming_list_at_a_revision_is_no_quorum_read():
    source = ScriptedSource(
        watches=[[end_bookmark(5), status(410, "Expired")], [end_bookmark(8), Hang]]
    )
    informer = informer_of(source)
    began = now()
    async with running(informer):
        await asyncio.sleep(60)
        assert informer.resource_version == "8"
        assert informer.quorum_read == began


async def test_the_time_of_the_last_list_is_when_it_was_complete():
    lists = [page([], 5), page([], 9)]
    watches = [[Pause(7.0), status(410, "Expired")], [Hang]]
    informer = informer_of(ScriptedSource(lists=lists, watches=watches), streaming=False)
    assert informer.statistics().last_list is None
    began = asyncio.get_running_loop().time()
    async with running(informer):
        await asyncio.sleep(5)
        assert informer.statistics().last_list == began
        await asyncio.sleep(60)
        listed = informer.statistics().last_list
        assert listed is not None
        assert 7.0 <= listed - began < 60.0
