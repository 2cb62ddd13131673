"""Streaming lists and the fall-back from them."""

from __future__ import annotations

import asyncio

import pytest

from informers import (
    Codec,
    ConnectionRefused,
    Disconnected,
    Expired,
    Failed,
    HistoryChanged,
    Malformed,
    ResourceVersionTooLarge,
    Throttled,
    Unsupported,
    listing,
)
from informers.listing import ListRequest, read_list
from tests.informers.doubles import (
    FakeServer,
    Hang,
    Pause,
    Recorder,
    ScriptedSource,
    Thing,
    added,
    bookmark,
    deleted,
    end_bookmark,
    event,
    informer_of,
    modified,
    page,
    running,
    settle,
    status,
    thing,
)

HOUR = 3600.0
EMPTY = page([], 1)


def names(informer):
    return sorted(obj.metadata.name for obj in informer.lister.list())


def streaming(source):
    """Times of the streaming lists among the requests."""
    return [r.at for r in source.requests if "sendInitialEvents" in r.query]


class TestTheWay:
    async def test_without_streaming_it_is_a_list_at_0_then_a_watch_with_bookmarks(self):
        source = ScriptedSource(lists=[page([thing("a", 1)], 7)])
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert informer.statistics().mode == "list"
        [listed] = source.queries("list")
        [watched] = source.queries("watch")
        assert listed == {"resourceVersion": "0", "limit": "500"}
        assert watched.pop("timeoutSeconds")
        assert watched == {"watch": "1", "resourceVersion": "7", "allowWatchBookmarks": "true"}

    async def test_after_the_end_bookmark_the_same_stream_goes_on(self):
        source = ScriptedSource(
            watches=[[added("a", 3), added("b", 2), end_bookmark(9), modified("a", 10), Hang]]
        )
        informer = informer_of(source)
        informer.add_handler(recorder := Recorder())
        revisions: list[str] = []
        informer.on_change(lambda _changes, revision: revisions.append(revision))
        async with running(informer):
            await settle()
            assert informer.statistics().mode == "streaming"
            assert informer.statistics().state == "Watching"
        assert revisions == ["9", "10"]
        assert len(source.requests) == 1
        assert "resourceVersion" not in source.requests[0].query
        assert sorted(recorder.calls[:2]) == [("add", "a", "3", True), ("add", "b", "2", True)]
        assert recorder.calls[2:] == [("update", "a", "3", "10")]

    async def test_a_stream_begun_at_a_revision_ends_at_that_of_the_bookmark(self):
        source = ScriptedSource(
            watches=[
                [end_bookmark(5), status(410, "Expired")],
                [added("a", 6), end_bookmark(8), Hang],
            ]
        )
        informer = informer_of(source)
        async with running(informer):
            await asyncio.sleep(5)
            assert source.requests[1].query["resourceVersion"] == "5"
            assert source.requests[1].query["resourceVersionMatch"] == "NotOlderThan"
            assert informer.lister.resource_version == "8"
            assert names(informer) == ["a"]

    async def test_only_the_right_annotation_with_the_value_true_ends_the_list(self):
        wrong = [
            bookmark(5),
            bookmark(6, end="false"),
            bookmark(7, end=""),
            bookmark(7, end="True"),
        ]
        source = ScriptedSource(watches=[[added("a", 3), *wrong, Pause(10), end_bookmark(8), Hang]])
        informer = informer_of(source)
        async with running(informer):
            await asyncio.sleep(9)
            assert not informer.has_synced
            assert informer.statistics().state == "Streaming"
            assert informer.lister.list() == []
            await asyncio.sleep(2)
            assert informer.has_synced
            assert informer.lister.resource_version == "8"

    async def test_changes_before_the_end_bookmark_are_reflected(self):
        source = ScriptedSource(
            watches=[
                [
                    added("a", 1),
                    added("b", 2),
                    modified("a", 3, colour="red"),
                    deleted("b", 4),
                    deleted("unknown", 5),
                    modified("c", 6),
                    end_bookmark(6),
                    Hang,
                ]
            ]
        )
        informer = informer_of(source)
        informer.add_handler(recorder := Recorder())
        async with running(informer):
            await settle()
            assert informer.lister.get("ns/a").colour == "red"
        assert recorder.calls == [("add", "a", "3", True), ("add", "c", "6", True)]

    async def test_after_a_break_a_fresh_stream_begins_with_an_empty_temporary_store(self):
        source = ScriptedSource(
            watches=[
                [added("lost", 1), Disconnected("reset")],
                [added("a", 2), end_bookmark(3), Hang],
            ]
        )
        informer = informer_of(source)
        async with running(informer):
            await asyncio.sleep(5)
            assert names(informer) == ["a"]
        assert source.queries("list") == []
        assert len(streaming(source)) == 2
        assert "resourceVersion" not in source.requests[1].query

    async def test_a_resumed_watch_does_not_ask_for_initial_events(self):
        source = ScriptedSource(watches=[[end_bookmark(3)], [Hang]])
        async with running(informer_of(source)):
            await settle()
        assert source.requests[1].query["resourceVersion"] == "3"
        assert "sendInitialEvents" not in source.requests[1].query
        assert "resourceVersionMatch" not in source.requests[1].query

    async def test_an_established_watch_that_expires_starts_the_next_cycle(self):
        source = ScriptedSource(
            watches=[
                [added("a", 1), end_bookmark(3), status(410, "Expired")],
                [added("b", 4), end_bookmark(5), Hang],
            ]
        )
        informer = informer_of(source)
        async with running(informer):
            await settle()
            assert names(informer) == ["a"]
            assert informer.statistics().state == "BackingOff"
            await asyncio.sleep(2)
            assert names(informer) == ["b"]
            assert informer.statistics().relists == {"Expired": 1}
            assert informer.statistics().last_error == ""


class TestRetries:
    @pytest.mark.parametrize(
        "refusal", [Throttled(), ConnectionRefused(), [added("x", 1), status(429, "Busy")]]
    )
    async def test_throttled_or_refused_streams_are_tried_again_without_fall_back(self, refusal):
        source = ScriptedSource(watches=[refusal] * 4 + [[added("a", 2), end_bookmark(3), Hang]])
        informer = informer_of(source)
        async with running(informer):
            await asyncio.sleep(60)
            assert names(informer) == ["a"]
        assert source.queries("list") == []
        assert len(streaming(source)) == 5

    @pytest.mark.parametrize(
        "refusal",
        [Expired(), ResourceVersionTooLarge(), [status(410, "Expired")], [status(410, "Gone")]],
    )
    async def test_an_unusable_revision_is_followed_by_a_stream_without_one_at_once(self, refusal):
        source = ScriptedSource(
            watches=[
                [end_bookmark(5), status(410, "Expired")],
                refusal,
                [added("a", 6), end_bookmark(7), Hang],
            ]
        )
        informer = informer_of(source)
        async with running(informer):
            await asyncio.sleep(5)
            assert names(informer) == ["a"]
        asked = [request.query.get("resourceVersion") for request in source.requests]
        assert asked == [None, "5", None]
        assert source.requests[1].at == source.requests[2].at

    async def test_a_stream_that_ends_behind_the_store_is_refused_and_redone_at_quorum(self):
        source = ScriptedSource(
            watches=[
                [added("a", 5), end_bookmark(50), status(410)],
                [end_bookmark(40), Hang],
                [added("b", 60), end_bookmark(61), Hang],
            ]
        )
        informer = informer_of(source)
        async with running(informer):
            await asyncio.sleep(5)
            assert names(informer) == ["b"]
        asked = [request.query.get("resourceVersion") for request in source.requests]
        assert asked == [None, "50", None]

    @pytest.mark.parametrize("shown", [[added("b", 8)], []])
    async def test_a_quorum_stream_behind_the_store_ends_all(self, shown: list[bytes]):
        source = ScriptedSource(
            watches=[
                [added("a", 5), end_bookmark(50), status(410)],
                ResourceVersionTooLarge(),
                [*shown, end_bookmark(9), Hang],
            ]
        )
        informer = informer_of(source)
        told: list[str] = []
        informer.on_change(lambda _changes, revision: told.append(revision))
        with pytest.raises(HistoryChanged, match="went back from 50 to 9"):
            await informer.run()
        assert told == ["50"]


class TestFallingBack:
    @pytest.mark.parametrize(
        "refusal",
        [
            Unsupported("sendInitialEvents is forbidden"),
            Failed(500, "Odd"),
            Failed(403, "Forbidden"),
            Malformed("html"),
            [status(422, "Invalid")],
            [status(500, "InternalError")],
        ],
    )
    async def test_any_other_error_falls_back_to_a_list_in_the_same_cycle(self, refusal):
        source = ScriptedSource(watches=[refusal, [Hang]], lists=[page([thing("a", 1)], 2)])
        informer = informer_of(source)
        async with running(informer):
            await settle()
            assert names(informer) == ["a"]
            assert informer.statistics().mode == "list"
            assert informer.statistics().fall_backs == 1
        assert source.times("list") == [0.0]

    async def test_a_server_that_cannot_stream_is_remembered_for_an_hour_then_two(self):
        source = ScriptedSource(
            streams=[Unsupported(), Unsupported(), [end_bookmark(5), status(410)], Unsupported()],
            lists=[EMPTY] * 99,
            watches=[[Pause(250), status(410, "Expired")]] * 99,
        )
        async with running(informer_of(source)):
            await asyncio.sleep(5 * HOUR)
        first, second, third, fourth, *_ = streaming(source)
        assert HOUR <= second - first < 1.1 * HOUR
        assert 2 * HOUR <= third - second < 2.1 * HOUR
        assert fourth - third < 5

    async def test_after_a_success_the_next_fall_back_is_for_an_hour_again(self):
        good = [end_bookmark(1), Pause(10), status(410)]
        source = ScriptedSource(
            streams=[Unsupported(), good, Unsupported(), good],
            lists=[EMPTY] * 99,
            watches=[[Pause(140), status(410, "Expired")]] * 99,
        )
        async with running(informer_of(source)):
            await asyncio.sleep(3 * HOUR)
        times = streaming(source)
        assert HOUR <= times[3] - times[2] < 1.1 * HOUR

    async def test_a_stream_that_breaks_twice_is_given_up(self):
        source = ScriptedSource(
            watches=[[added("a", 1), Disconnected()], [added("a", 1), added("b", 2)[:9]], [Hang]],
            lists=[EMPTY],
        )
        async with running(informer_of(source)):
            await asyncio.sleep(5)
        assert len(streaming(source)) == 2
        assert len(source.queries("list")) == 1

    @pytest.mark.parametrize("refusal", [Expired(), [added("x", 1), status(410, "Gone")]])
    async def test_a_server_that_has_no_revision_to_stream_from_is_listed(self, refusal):
        source = ScriptedSource(
            watches=[refusal, refusal, [Hang]], lists=[page([thing("a", 1)], 2)]
        )
        informer = informer_of(source)
        async with running(informer):
            await settle()
            assert names(informer) == ["a"]
            assert informer.statistics().fall_backs == 1
        assert source.times("list") == [0.0]

    async def test_breaks_before_a_success_do_not_count_after_it(self):
        source = ScriptedSource(
            streams=[
                [added("a", 1), Disconnected()],
                [end_bookmark(5), status(410)],
                [added("a", 1), Disconnected()],
                [end_bookmark(6), Hang],
            ]
        )
        informer = informer_of(source)
        async with running(informer):
            await asyncio.sleep(30)
            assert informer.lister.resource_version == "6"
        assert source.queries("list") == []

    @pytest.mark.parametrize("events", [[], [added("a", 1)], [added("a", 1), bookmark(3)]])
    async def test_a_server_that_closes_without_the_bookmark_gets_a_list_at_once(self, events):
        source = ScriptedSource(watches=[events, [Hang]], lists=[page([thing("a", 1)], 3)])
        informer = informer_of(source)
        async with running(informer):
            await settle()
            assert names(informer) == ["a"]
            assert source.times("list") == [0.0]

    async def test_a_server_that_stays_idle_gets_a_list_after_a_minute_and_is_remembered(self):
        source = ScriptedSource(lists=[EMPTY] * 9, watches=[[added("a", 1), Hang]])
        source.watches += [[Pause(300), status(410)], [Pause(300), status(410)], [Hang]]
        async with running(informer_of(source)):
            await asyncio.sleep(HOUR / 2)
        assert source.times("list")[0] == 60.0
        assert len(source.times("list")) == 3
        assert len(streaming(source)) == 1

    async def test_a_server_that_chats_for_ever_gets_a_list_after_two_minutes(self):
        chat = [step for n in range(2, 90) for step in (modified("a", n), Pause(5))]
        source = ScriptedSource(lists=[page([thing("a", 30)], 31)], watches=[chat, [Hang]])
        informer = informer_of(source)
        async with running(informer):
            await asyncio.sleep(119)
            assert not informer.has_synced
            await asyncio.sleep(2)
            assert informer.has_synced
            assert names(informer) == ["a"]
        assert source.times("list") == [120.0]

    async def test_a_server_that_takes_the_parameter_for_a_plain_watch(self):
        server = FakeServer(streaming="ignored")
        server.put("a")
        informer = informer_of(server)
        async with running(informer):
            await asyncio.sleep(61)
            assert names(informer) == ["a"]
            server.put("b")
            await settle()
            assert names(informer) == ["a", "b"]
            assert informer.statistics().mode == "list"

    @pytest.mark.parametrize(
        ("steps", "why"),
        [
            ([Hang], "no event arrived"),
            ([Pause(20), added("a", 1), Hang], "the last event arrived 60 s ago"),
            ([Pause(20), added("a", 1)], "the stream ended before"),
        ],
    )
    async def test_it_is_said_what_was_waited_for(self, steps, why, caplog):
        source = ScriptedSource(streams=[steps], lists=[EMPTY])
        async with running(informer_of(source)):
            await asyncio.sleep(90)
        [record] = caplog.records
        assert why in record.getMessage()
        assert "paged instead of streaming lists for 3600 s" in record.getMessage()

    async def test_nothing_is_said_after_the_end_bookmark(self, caplog):
        source = ScriptedSource(streams=[[end_bookmark(3), Hang]])
        async with running(informer_of(source)):
            await asyncio.sleep(200)
        assert caplog.records == []

    @pytest.mark.parametrize("revision", [8, 9])
    async def test_an_initial_event_behind_the_end_bookmark_is_a_reason_to_list(self, revision):
        source = ScriptedSource(
            streams=[
                [end_bookmark(9), added("a", revision), Hang],
                [added("a", revision), end_bookmark(9), Hang],
            ]
        )
        informer = informer_of(source)
        async with running(informer):
            await settle()
            assert names(informer) == ["a"]
            assert informer.statistics().relists == {"rewound": 1}

    async def test_an_event_without_sense_in_the_initial_stream_costs_only_itself(self):
        odd = event("ADDED", thing("odd", 3, size="large"))
        source = ScriptedSource(watches=[[added("a", 1), odd, end_bookmark(3), Hang]])
        informer = informer_of(source)
        async with running(informer):
            await settle()
            assert names(informer) == ["a"]
            assert set(informer.quarantined) == {"ns/odd"}

    async def test_an_object_that_is_mended_in_the_initial_stream_is_not_quarantined(self):
        odd = event("ADDED", thing("a", 1, size="large"))
        source = ScriptedSource(watches=[[odd, modified("a", 2, size=2), end_bookmark(3), Hang]])
        informer = informer_of(source)
        async with running(informer):
            await settle()
            assert names(informer) == ["a"]
            assert informer.quarantined == {}


# -- reading a list page by page -------------------------------------------------------------------


CACHED = ListRequest(revision="0", limit=2)


async def read(lists, request=CACHED):
    source = ScriptedSource(lists=lists)
    try:
        listed = await read_list(source, Codec(Thing), request)
    finally:
        asked.clear()
        asked.extend(source.queries("list"))
    return [obj.metadata.name for obj in listed.objects], listed


asked: list[dict[str, str]] = []


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6])
async def test_all_items_come_in_order_with_the_right_number_of_requests(count):
    items = [thing(f"t{n}", n + 1) for n in range(count)]
    pages = [items[n : n + 2] for n in range(0, count, 2)] or [[]]
    last = len(pages) - 1
    names, listed = await read(
        [page(part, 10 + n, "" if n == last else f"c{n}") for n, part in enumerate(pages)]
    )
    assert names == [f"t{n}" for n in range(count)]
    assert len(asked) == len(pages)
    assert listed.revision == "10"
    assert listed.paginated is (len(pages) > 1)


async def test_an_error_on_a_later_page_is_raised_and_nothing_more_is_asked():
    with pytest.raises(Failed):
        await read([page([thing("a", 1)], 9, "c"), Failed(500), page([], 9)])
    assert len(asked) == 2


async def test_expired_on_the_first_page_is_the_caller_s_business():
    with pytest.raises(Expired):
        await read([Expired(), page([], 9)])
    assert len(asked) == 1


async def test_expired_on_a_later_page_is_followed_by_one_list_without_a_limit():
    names, listed = await read(
        [
            page([thing("old", 1)], 9, "c1"),
            page([thing("older", 2)], 9, "c2"),
            Expired(),
            page([thing("a", 1), thing("b", 2), thing("c", 3)], 12),
        ]
    )
    assert names == ["a", "b", "c"]
    assert listed.revision == "12"
    assert listed.paginated
    assert asked[3] == {"resourceVersion": "0"}


async def test_expired_in_the_full_list_too_is_raised():
    with pytest.raises(Expired):
        await read([page([], 9, "c1"), Expired(), Expired()])


async def test_only_the_first_request_and_the_full_list_carry_the_revision():
    request = ListRequest(revision="7", limit=2)
    await read([page([], 7, "c1"), page([], 7, "c2"), Expired(), page([], 7)], request)
    assert asked == [
        {"resourceVersion": "7", "limit": "2"},
        {"continue": "c1", "limit": "2"},
        {"continue": "c2", "limit": "2"},
        {"resourceVersion": "7"},
    ]


async def test_a_list_without_a_limit_that_comes_in_pages_is_refused():
    with pytest.raises(Malformed):
        await read([page([], 9, "c1"), Expired(), page([], 9, "c2")])


ENDLESS = {
    "the same page again and again": [page([thing("a", 1)], 9, "c")] * 99,
    "the same objects with other tokens": [page([thing("a", 1)], 9, f"c{n}") for n in range(99)],
    "empty pages of one token": [page([], 9, "c")] * 99,
    "two tokens in turns": [page([], 9, f"c{n % 2}") for n in range(99)],
}


@pytest.mark.parametrize("pages", ENDLESS.values(), ids=ENDLESS)
async def test_pages_that_repeat_are_refused_instead_of_asked_for_without_end(pages):
    with pytest.raises(Malformed):
        await read(pages)
    assert len(asked) <= 3


async def test_a_list_may_have_ten_thousand_pages_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listing, "_MOST_PAGES", 3)
    pages = [page([thing(f"a{n}", 1)], 9, f"c{n}") for n in range(99)]
    names, _ = await read([*pages[:2], page([], 9)])
    assert names == ["a0", "a1"]
    with pytest.raises(Malformed, match="a list of more than 3 pages"):
        await read(pages)
    assert len(asked) == 4


async def test_pages_may_be_empty_or_show_an_object_again_beside_new_ones():
    nameless = {"kind": "Thing", "metadata": {}}
    names, listed = await read(
        [
            page([], 9, "c1"),
            page([], 9, "c2"),
            page([thing("a", 1), nameless], 9, "c3"),
            page([nameless], 9, "c4"),
            page([thing("a", 1), thing("b", 2)], 9),
        ]
    )
    assert names == ["a", "a", "b"]
    assert len(listed.undecodable) == 2


async def test_one_object_that_does_not_fit_costs_only_itself_on_any_page():
    _, listed = await read(
        [
            page([thing("a", 1), thing("odd", 2, size="large")], 9, "c"),
            page([thing("b", 3), thing("odd2", 4, size=None)], 9),
        ]
    )
    assert [obj.metadata.name for obj in listed.objects] == ["a", "b"]
    assert [(odd.key, odd.uid) for odd in listed.undecodable] == [
        ("ns/odd", "uid-odd"),
        ("ns/odd2", "uid-odd2"),
    ]
