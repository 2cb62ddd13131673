"""Small parts of informers, each by itself."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from informers import (
    Disconnected,
    Failed,
    IndexFunctionError,
    error_from_status,
)
from informers.decoding import split_json
from informers.listing import InitialState, ListRequest, list_request
from informers.processor import Processor
from informers.states import (
    Listing,
    ReflectorContext,
    Rewound,
    Streaming,
    Synced,
    Watching,
    step,
)
from informers.store import (
    Ignored,
    Removed,
    Replaced,
    Store,
    Undecodable,
    Upserted,
    revision_of,
)
from tests.informers.doubles import (
    Hang,
    Meta,
    ScriptedSource,
    Thing,
    added,
    bookmark,
    informer_of,
    page,
    running,
)

A = Thing(Meta("a", "ns", "uid-a", "5"), "red", 3)


def at(revision: str) -> Thing:
    return Thing(Meta("a", "ns", "uid-a", revision), "red", 3)


def test_an_error_has_no_delay_unless_the_server_asked_for_one():
    assert Disconnected("reset").retry_after == error_from_status(429).retry_after == 0
    error = Failed(403, "Forbidden", "not for you")
    assert (error.status, error.reason, error.retry_after) == (403, "Forbidden", 0)


def test_events_that_are_ignored_have_no_revision():
    assert revision_of(Ignored("odd")) == ""


@pytest.mark.parametrize(
    ("code", "reason"),
    [(410, ""), (504, ""), (429, ""), (400, ""), (422, ""), (500, "InternalError"), (500, "Odd")],
)
def test_each_error_keeps_what_the_server_said_and_how_long_to_wait(code: int, reason: str):
    error = error_from_status(code, reason, "Too large resource version", retry_after=3)
    assert str(error).endswith("Too large resource version")
    assert error.retry_after == 3


def test_the_latest_state_in_an_initial_stream_counts():
    odd = Undecodable("ns/a", "uid-a", "6", "odd")
    state: InitialState[Thing] = InitialState()
    state.apply(Upserted(A))
    state.apply(odd)
    assert state.complete("9") == Replaced([], (odd,), "9")
    state.apply(Removed(at("7")))
    assert state.complete("9") == Replaced([], (), "9")
    state.apply(replace(odd, revision="8"))
    state.apply(Upserted(at("10")))
    assert state.complete("9") == Replaced([at("10")], (), "9")
    state.apply(replace(odd, revision="11", removed=True))
    assert state.complete("9") == Replaced([], (), "9")


@pytest.mark.parametrize(
    "old",
    [
        Upserted(at("3")),
        Upserted(at("abc")),
        Removed(at("5")),
        Undecodable("ns/a", "uid-a", "5", "odd"),
        Undecodable("ns/a", "uid-a", "5", "", removed=True),
    ],
)
def test_what_is_old_in_an_initial_stream_changes_nothing(old):
    initial = InitialState[Thing]()
    initial.apply(Upserted(A))
    initial.apply(old)
    assert initial.complete("9") == Replaced([A], (), "9")


def test_what_was_deleted_in_an_initial_stream_stays_deleted():
    initial = InitialState[Thing]()
    for event in (Upserted(A), Removed(at("9")), Upserted(A)):
        initial.apply(event)
    assert initial.complete("9").objects == []


def test_only_members_of_objects_have_names():
    assert list(split_json(b'["a": 1, 2]')) == [("", b'"a": 1'), ("", b"2")]


def test_an_object_that_cannot_be_indexed_is_known_by_its_metadata():
    processor = Processor(Store[Thing]({"picky": lambda obj: [obj.colour.nothing]}))
    assert processor.apply(Upserted(A)) == []
    [odd] = processor.quarantined.values()
    assert (odd.key, odd.uid, odd.revision, odd.metadata) == ("ns/a", "uid-a", "5", A.metadata)


@pytest.mark.parametrize(
    ("requested", "at", "delayed"), [(False, 64.9, True), (False, 65.0, False), (True, 64.9, False)]
)
def test_streams_that_contradict_the_store_soon_after_each_other_cost_a_delay(
    requested: bool, at: float, delayed: bool
):
    first = step(Watching(ReflectorContext()), Rewound("a sign"), 5.0)
    assert not first.delayed
    listed = step(first.state, Synced(), 5.0)
    again = step(listed.state, Rewound("a sign", requested=requested), at)
    assert again.delayed is delayed
    streaming = step(listed.state, Rewound("a sign", requested=requested), at)
    assert isinstance(streaming.state, Listing if delayed else Streaming)


def test_lists_at_quorum_are_paged():
    at_quorum = Listing(ReflectorContext(at_quorum=True))
    assert list_request(at_quorum, "5") == ListRequest(revision="", limit=500)
    assert list_request(Listing(ReflectorContext()), "5") == ListRequest(revision="5")


def test_an_index_keeps_its_name_when_the_store_is_replaced():
    store: Store[Thing] = Store({"picky": lambda obj: [obj.colour.nothing]})
    with pytest.raises(IndexFunctionError, match=r"^there is already an index 'picky'$"):
        store.add_index("picky", lambda obj: [])
    store.replace([], "5")
    on_a = r"^index 'picky' on ns/a: AttributeError"
    with pytest.raises(IndexFunctionError, match=on_a):
        store.put(A)
    with pytest.raises(IndexFunctionError, match=on_a):
        store.check_indexes(A)
    with pytest.raises(IndexFunctionError, match=on_a):
        store.replace([A], "6")


async def test_statistics_tell_when_what_came_last():
    steps = [added("a", 6), bookmark(7), Hang]
    source = ScriptedSource(lists=[page([], 5)], watches=[steps])
    informer = informer_of(source, streaming=False)
    seen = informer.statistics()
    assert (seen.last_byte, seen.last_event, seen.last_bookmark) == (None, None, None)
    assert (seen.name, seen.description) == ("things", "things in all namespaces")
    assert (seen.state, seen.mode, seen.has_synced) == ("Stopped", "list", False)
    async with running(informer):
        await asyncio.sleep(3)
        seen = informer.statistics()
    assert (seen.last_byte, seen.last_event, seen.last_bookmark) == (0.0, 0.0, 0.0)
    assert (seen.state, seen.connected, seen.resource_version) == ("Watching", True, "7")
    assert (seen.lists, seen.streams, seen.objects) == (1, 1, 1)
    assert (seen.last_error, seen.last_error_at) == ("", None)
