"""How a reflector lists, watches and fails."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from itertools import pairwise

import pytest

from informers import (
    Codec,
    ConnectionRefused,
    Disconnected,
    Expired,
    Failed,
    HistoryChanged,
    InternalError,
    Malformed,
    ResourceVersionTooLarge,
    SourceError,
    Throttled,
    Unsupported,
    error_from_status,
    reflector,
)
from informers.listing import list_request, watch_query
from informers.states import (
    ON_ERROR,
    Broken,
    Ended,
    Listing,
    RecoveryAction,
    ReflectorContext,
    RetryBackoff,
    Silent,
    Stale,
    Streaming,
    Synced,
    Watching,
    decide,
    first_state,
    step,
)
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

EMPTY = page([], 1)


def names(informer):
    return sorted(obj.metadata.name for obj in informer.lister.list())


def subtree(root: type[SourceError]) -> set[type[SourceError]]:
    return {root}.union(*(subtree(kind) for kind in root.__subclasses__()))


class TestWatching:
    async def test_an_error_event_ends_the_watch_and_closes_its_stream_once(self):
        source = ScriptedSource(lists=[EMPTY], watches=[[status(500, "Odd"), Hang]])
        async with running(informer_of(source, streaming=False)):
            await settle()
            [_, watch] = source.requests
            assert watch.closed == 1

    async def test_cancelling_closes_an_open_watch_exactly_once(self):
        source = ScriptedSource(lists=[EMPTY], watches=[[bookmark(2), Hang]])
        async with running(informer_of(source, streaming=False)) as run:
            await settle()
            assert source.requests[-1].closed == 0
        assert run.cancelled()
        assert [request.closed for request in source.requests] == [0, 1]

    async def test_stopping_before_the_start_opens_nothing(self):
        source = ScriptedSource(lists=[EMPTY])
        run = asyncio.create_task(informer_of(source, streaming=False).run())
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        assert run.cancelled()
        assert source.requests == []

    async def test_stopping_wins_over_an_error_that_comes_at_the_same_time(self):
        source = ScriptedSource(lists=[EMPTY], watches=[[Pause(5), status(500, "Odd")]])
        async with running(informer_of(source, streaming=False)) as run:
            await settle()
            asyncio.get_running_loop().call_later(5, run.cancel)
            await asyncio.wait([run])
        assert run.cancelled()
        assert source.requests[-1].closed == 1
        assert len(source.requests) == 2

    async def test_a_watch_that_ends_at_once_with_no_event_is_an_error(self):
        source = ScriptedSource(lists=[EMPTY, EMPTY], watches=[[]])
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert informer.statistics().state == "BackingOff"
            assert not informer.statistics().connected
            assert source.requests[-1].closed == 1
            await asyncio.sleep(2)
            assert informer.statistics().relists == {"short watch": 1}
            assert len(source.queries("list")) == 2

    async def test_the_revision_is_that_of_the_last_valid_event(self):
        table = {"kind": "Table", "metadata": {"resourceVersion": "70"}, "rows": []}
        source = ScriptedSource(
            lists=[page([thing("a", 1), thing("z", 2)], 5)],
            watches=[
                [
                    added("b", 10),
                    modified("a", 20, colour="red"),
                    deleted("z", 30),
                    bookmark(40),
                    event("ADDED", table),
                    event("ODDITY", thing("c", 80)),
                    event("ADDED", {"kind": "Thing"}),
                    event("BOOKMARK", {"kind": "Thing", "metadata": {}}),
                    Hang,
                ]
            ],
        )
        informer = informer_of(source, streaming=False)
        revisions: list[str] = []
        informer.on_change(lambda _changes, revision: revisions.append(revision))
        async with running(informer):
            await settle()
            assert names(informer) == ["a", "b"]
            assert informer.lister.get("ns/a").colour == "red"
            assert revisions == ["5", "10", "20", "30", "40"]
            assert informer.statistics().skipped == 4
            assert informer.statistics().connected

    async def test_the_list_revision_starts_the_watch_and_events_follow_in_order(self):
        source = ScriptedSource(
            lists=[page([thing("a", 2)], 3)],
            watches=[[modified("a", 4), added("b", 5), deleted("a", 6), Hang]],
        )
        informer = informer_of(source, streaming=False)
        informer.add_handler(recorder := Recorder())
        async with running(informer):
            await settle()
        [watch] = source.queries("watch")
        assert watch["resourceVersion"] == "3"
        assert recorder.calls == [
            ("add", "a", "2", True),
            ("update", "a", "2", "4"),
            ("add", "b", "5", False),
            ("delete", "a", "6"),
        ]

    async def test_a_clean_end_is_followed_by_a_watch_from_the_same_place_at_once(self):
        source = ScriptedSource(lists=[EMPTY], watches=[[added("a", 2)], [bookmark(3)], [Hang]])
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            revisions = [query["resourceVersion"] for query in source.queries("watch")]
            assert revisions == ["1", "2", "3"]
            assert set(source.times("watch")) == {0.0}
            assert informer.statistics().watch_restarts == {"ended": 2}

    async def test_a_server_that_sends_one_stale_bookmark_and_hangs_up_makes_no_hot_loop(self):
        source = ScriptedSource(lists=[EMPTY] * 99, watches=[[bookmark(1)] for _ in range(99)])
        async with running(informer_of(source, streaming=False)):
            await asyncio.sleep(60)
            assert len(source.requests) < 20

    async def test_events_that_were_applied_before_are_skipped(self):
        source = ScriptedSource(
            lists=[page([thing("a", 5)], 5)],
            watches=[[deleted("a", 4), added("a", 5), added("a", 5), modified("a", 6), Hang]],
        )
        informer = informer_of(source, streaming=False)
        informer.add_handler(recorder := Recorder())
        async with running(informer):
            await settle()
            assert informer.statistics().skipped == 3
        assert recorder.calls == [("add", "a", "5", True), ("update", "a", "5", "6")]

    async def test_events_out_of_order_are_a_reason_to_list_at_quorum(self, caplog):
        source = ScriptedSource(
            lists=[page([], 5), page([thing("a", 11), thing("b", 12)], 13)],
            watches=[[added("b", 12), event("ADDED", thing("c", "x")), added("a", 11)], [Hang]],
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert names(informer) == ["a", "b"]
        assert "resourceVersion" not in source.queries("list")[1]
        assert "an event at 11 after one at 12; listing at quorum" in caplog.text

    async def test_an_event_out_of_order_counts_also_without_the_end_of_its_line(self):
        source = ScriptedSource(
            lists=[page([], 5), page([thing("a", 11), thing("b", 12)], 13)],
            watches=[[added("b", 12), added("a", 11).rstrip()], [Hang]],
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert names(informer) == ["a", "b"]

    @pytest.mark.parametrize("repeated", [added("a", 11), deleted("b", 12), added("x", 9)])
    async def test_old_events_that_tell_nothing_new_are_skipped_in_any_order(self, repeated):
        source = ScriptedSource(
            lists=[page([thing("b", 4), thing("x", 5, size="odd")], 5)],
            watches=[
                [
                    event("MODIFIED", thing("x", 10, size="odd")),
                    added("a", 11),
                    deleted("b", 12),
                    modified("a", 13),
                    repeated,
                    Hang,
                ]
            ],
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert informer.statistics().skipped == 1
            assert informer.statistics().relists == {}

    @pytest.mark.parametrize(
        "passed_over",
        [
            modified("a", 11),
            deleted("a", 11),
            event("MODIFIED", thing("a", 11, size="odd")),
            event("DELETED", thing("a", 11, size="odd")),
            modified("odd", 11),
            event("ADDED", thing("new", 11, size="odd")),
        ],
    )
    async def test_old_events_that_tell_something_new_are_a_reason_to_list(self, passed_over):
        source = ScriptedSource(
            lists=[page([thing("a", 3), thing("odd", 4, size="odd")], 5)],
            watches=[[added("b", 12), passed_over, Hang]],
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert informer.statistics().relists == {"rewound": 1}

    async def test_events_that_a_confirmed_revision_made_old_are_in_order(self):
        source = ScriptedSource(
            lists=[page([], 5)], watches=[[Pause(1), added("a", 7), deleted("a", 9), Hang]]
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            informer.advance("9")
            await asyncio.sleep(5)
            assert informer.statistics().skipped == 2
            assert informer.statistics().relists == {}

    async def test_a_revision_that_is_no_number_costs_only_its_event(self):
        odd = event("ADDED", thing("odd", "abc"))
        source = ScriptedSource(
            lists=[EMPTY], watches=[[odd, bookmark("x"), added("a", 5)], [Hang]]
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert names(informer) == ["a"]
            assert informer.statistics().skipped == 1
        assert [query["resourceVersion"] for query in source.queries("watch")] == ["1", "5"]

    async def test_a_server_that_contradicts_each_list_makes_no_hot_loop(self):
        source = ScriptedSource(
            lists=[page([], 9)] * 99, watches=[[bookmark(3), Hang] for _ in range(99)]
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(60)
            assert informer.statistics().relists["rewound"] > 2
            assert len(source.requests) < 20

    async def test_a_line_that_is_too_long_is_passed_over_by_a_list(self, monkeypatch):
        monkeypatch.setattr(reflector, "LINE_LIMIT", 1000)
        source = ScriptedSource(
            lists=[EMPTY, page([thing("a", 5)], 6)], watches=[[Pause(9), b"x" * 1001], [Hang]]
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(15)
            assert names(informer) == ["a"]
            assert informer.statistics().relists == {"Malformed": 1}

    async def test_half_a_line_before_a_silence_is_left_with_its_stream(self):
        half = added("b", 3)[:20]
        source = ScriptedSource(
            lists=[EMPTY], watches=[[added("a", 2), bookmark(2), half, Hang], [added("b", 3), Hang]]
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(181)
            assert names(informer) == ["a", "b"]
            assert len(source.queries("list")) == 1

    async def test_a_stream_cut_inside_a_line_resumes_behind_the_last_whole_event(self):
        source = ScriptedSource(
            lists=[EMPTY], watches=[[added("a", 2), added("b", 3)[:20]], [added("b", 3), Hang]]
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert names(informer) == ["a", "b"]
            assert informer.statistics().watch_restarts == {"Disconnected": 1}
            assert len(source.queries("list")) == 1

    async def test_a_last_line_without_its_end_counts_if_it_is_whole(self):
        source = ScriptedSource(lists=[EMPTY], watches=[[added("a", 2).rstrip()], [Hang]])
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert names(informer) == ["a"]
            assert informer.statistics().watch_restarts == {"ended": 1}


class TestErrors:
    async def test_an_error_whose_status_cannot_be_read_ends_the_watch(self):
        odd = event("ERROR", {"kind": "Status", "code": "410"})
        source = ScriptedSource(lists=[EMPTY, page([thing("a", 5)], 6)], watches=[[odd, Hang]])
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert "an error without a readable Status" in informer.statistics().last_error
            await asyncio.sleep(5)
            assert names(informer) == ["a"]

    async def test_no_more_than_a_minute_is_waited_whatever_the_server_asks_for(self):
        busy = status(429, "TooManyRequests", retryAfterSeconds=1e9)
        source = ScriptedSource(lists=[EMPTY], watches=[[busy], Throttled(retry_after=61), [Hang]])
        async with running(informer_of(source, streaming=False)):
            await asyncio.sleep(200)
        assert source.times("watch") == [0, 60, 120]

    async def test_at_each_relist_the_store_equals_the_list_and_each_error_is_told(self):
        source = ScriptedSource(
            lists=[
                page([thing("a", 1)], 1),
                Failed(500, "Odd"),
                page([thing("b", 7), thing("c", 8)], 9),
                page([], 20),
            ],
            watches=[
                [added("b", 2), deleted("a", 3), status(500, "Broken")],
                Failed(403, "Forbidden"),
                [Hang],
            ],
        )
        informer = informer_of(source, streaming=False)
        errors: list[str] = []
        informer.on_error(lambda error: errors.append(str(error)))
        seen: list[tuple[str, list[str]]] = []
        informer.on_change(lambda _changes, revision: seen.append((revision, names(informer))))
        async with running(informer):
            await asyncio.sleep(60)
        assert seen == [
            ("1", ["a"]),
            ("2", ["a", "b"]),
            ("3", ["b"]),
            ("9", ["b", "c"]),
            ("20", []),
        ]
        assert errors == ["500 Broken", "500 Odd", "403 Forbidden"]

    async def test_refused_connections_cost_a_delay_each_and_one_list_only(self):
        source = ScriptedSource(lists=[EMPTY], watches=[ConnectionRefused()] * 4 + [[Hang]])
        async with running(informer_of(source, streaming=False)):
            await asyncio.sleep(60)
        assert len(source.queries("list")) == 1
        times = source.times("watch")
        delays = [after - before for before, after in pairwise(times)]
        for delay, base in zip(delays, (0.8, 1.6, 3.2, 6.4), strict=True):
            assert base <= delay < 2 * base

    async def test_each_429_costs_one_delay_and_no_list(self):
        source = ScriptedSource(
            lists=[EMPTY],
            watches=[Throttled(), [status(429, "TooManyRequests")], [added("a", 2), Hang]],
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(30)
            first, second, third = source.times("watch")
            assert 0.8 <= second - first < 1.6
            assert 1.6 <= third - second < 3.2
            assert len(source.queries("list")) == 1
            assert names(informer) == ["a"]

    @pytest.mark.parametrize(
        "refusal", [Throttled(retry_after=50), [status(429, retryAfterSeconds=50)]]
    )
    async def test_retry_after_is_waited_for_when_it_is_longer_than_the_delay(self, refusal):
        source = ScriptedSource(lists=[EMPTY], watches=[refusal, [Hang]])
        async with running(informer_of(source, streaming=False)):
            await asyncio.sleep(60)
        assert source.times("watch") == [0, 50]

    async def test_an_internal_error_in_a_watch_leads_to_a_list(self):
        source = ScriptedSource(
            lists=[EMPTY, EMPTY], watches=[[Pause(10), status(500, "InternalError")], [Hang]]
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(60)
            assert informer.statistics().relists == {"InternalError": 1}

    async def test_an_object_deleted_as_corrupt_goes_with_the_relist(self):
        source = ScriptedSource(
            lists=[page([thing("a", 1), thing("corrupt", 2)], 2), page([thing("a", 1)], 5)],
            watches=[[status(500, "StoreReadError", "corrupt object has been deleted")], [Hang]],
        )
        informer = informer_of(source, streaming=False)
        informer.add_handler(recorder := Recorder())
        async with running(informer):
            await asyncio.sleep(5)
            assert names(informer) == ["a"]
        assert recorder.calls[2:] == [("delete", "corrupt", "2")]

    @pytest.mark.parametrize("expiry", [Expired("too old"), [status(410, "Expired")]])
    async def test_the_expiry_of_a_watch_is_nothing_to_complain_of(self, expiry, caplog):
        source = ScriptedSource(lists=[EMPTY, EMPTY], watches=[expiry, [Hang]])
        informer = informer_of(source, streaming=False)
        informer.on_error(lambda error: pytest.fail(str(error)))
        async with running(informer):
            await asyncio.sleep(5)
            assert informer.statistics().relists == {"Expired": 1}
        assert caplog.records == []

    async def test_expired_after_a_bookmark_relists_at_the_held_revision_first(self):
        source = ScriptedSource(
            lists=[EMPTY, Expired(), page([], 60)],
            watches=[[bookmark(50), Disconnected()], Expired(), [Hang]],
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(10)
            lists = source.queries("list")
            assert [query.get("resourceVersion") for query in lists] == ["0", "50", None]
            assert source.times("list")[1] == source.times("list")[2] > 0.8
            assert informer.statistics().relists == {"Expired": 2}


class TestTables:
    """What follows each way in which a watch or a streaming list can end."""

    def test_every_error_has_a_row(self):
        assert subtree(SourceError) == set(ON_ERROR)

    @pytest.mark.parametrize(
        ("error", "listing", "streaming", "starting", "watching"),
        [
            (ConnectionRefused(), "RELIST", "RETRY_LATER", "RETRY_LATER", "RETRY_LATER"),
            (Throttled(), "RELIST", "RETRY_LATER", "RETRY_LATER", "RETRY_LATER"),
            (Disconnected(), "RELIST", "RETRY_FEW_TIMES", "RETRY_LATER", "RELIST"),
            (Expired(), "ESCALATE", "ESCALATE", "RELIST", "RELIST"),
            (ResourceVersionTooLarge(), "ESCALATE", "ESCALATE", "RELIST", "RELIST"),
            (Unsupported(), "ESCALATE", "FALL_BACK", "RELIST", "RELIST"),
            (InternalError(), "RELIST", "FALL_BACK", "RELIST", "RELIST"),
            (Malformed(), "RELIST", "FALL_BACK", "RELIST", "RELIST"),
            (Failed(403), "RELIST", "FALL_BACK", "RELIST", "RELIST"),
            (SourceError(), "RELIST", "FALL_BACK", "RELIST", "RELIST"),
        ],
    )
    def test_the_action_for_each_error_in_each_state(
        self, error, listing, streaming, starting, watching
    ):
        memory = ReflectorContext()
        actions = [
            decide(Listing(memory), Broken(error)),
            decide(Streaming(memory), Broken(error)),
            decide(Streaming(memory), Broken(error, started=True)),
            decide(Watching(memory), Broken(error)),
            decide(Watching(memory), Broken(error, started=True)),
        ]
        assert [action.name for action in actions] == [
            listing,
            streaming,
            streaming,
            starting,
            watching,
        ]

    @pytest.mark.parametrize("error", [Disconnected(), Malformed()])
    @pytest.mark.parametrize(
        ("lived", "progressed", "action"),
        [(0.9, False, "RELIST"), (0.9, True, "RETRY"), (1.0, False, "RETRY"), (9, True, "RETRY")],
    )
    def test_a_broken_watch_is_a_clean_end_unless_it_was_useless(
        self, error, lived, progressed, action
    ):
        watching = Watching(ReflectorContext())
        broken = Broken(error, started=True, lived=lived, progressed=progressed)
        repeats = isinstance(error, Malformed) and not progressed
        assert decide(watching, broken).name == ("RELIST" if repeats else action)
        assert decide(watching, Ended(lived, progressed)).name == action

    def test_the_action_for_what_is_not_an_error(self):
        memory = ReflectorContext()
        for state in (Listing(memory), Streaming(memory)):
            assert decide(state, Synced()) is RecoveryAction.WATCH
            assert decide(state, Stale()) is RecoveryAction.ESCALATE
        assert decide(Streaming(memory), Silent()) is RecoveryAction.FALL_BACK
        assert decide(Streaming(memory), Ended(9, progressed=True)) is RecoveryAction.FALL_BACK
        assert decide(Watching(memory), Silent()) is RecoveryAction.RETRY

    def test_every_state_and_outcome_has_a_transition_that_cannot_spin(self):
        """What is not delayed makes progress: it leaves the state, escalates, or ran a while."""
        errors = [kind(500) if kind is Failed else kind() for kind in ON_ERROR]
        outcomes = [Stale(), Silent(), Ended(0.0, progressed=False)]
        outcomes += [Broken(error, started) for error in errors for started in (False, True)]
        for kind in (Listing, Streaming, Watching):
            for quorum in (False, True):
                state = kind(ReflectorContext(at_quorum=quorum))
                for outcome in outcomes:
                    if isinstance(outcome, Stale | Silent | Ended) and kind is Listing:
                        continue
                    after = step(state, outcome, 0.0)
                    patient = isinstance(outcome, Silent)
                    assert after.delayed or after.state != state or patient, (state, outcome)

    @pytest.mark.parametrize(
        ("status_", "error"),
        [
            ((410, "Expired"), Expired),
            ((410, "Gone"), Expired),
            ((429, "TooManyRequests"), Throttled),
            ((400, "BadRequest"), Unsupported),
            ((422, "Invalid"), Unsupported),
            ((500, "InternalError"), InternalError),
            ((500, "StoreReadError"), Failed),
            ((504, "Timeout"), Failed),
            ((403, "Forbidden"), Failed),
        ],
    )
    def test_each_status_becomes_its_error(self, status_, error):
        assert type(error_from_status(*status_)) is error


class TestLists:
    async def test_a_relist_asks_for_the_held_revision_without_a_limit(self):
        source = ScriptedSource(
            lists=[page([], 10), page([], 11)], watches=[[status(410, "Expired")], [Hang]]
        )
        async with running(informer_of(source, streaming=False)):
            await asyncio.sleep(5)
        assert source.queries("list") == [
            {"resourceVersion": "0", "limit": "500"},
            {"resourceVersion": "10"},
        ]

    async def test_a_server_that_pages_its_cache_is_paged_from_then_on(self):
        source = ScriptedSource(
            lists=[page([], 10, "next"), page([], 10), page([], 11)],
            watches=[[status(410, "Expired")], [Hang]],
        )
        async with running(informer_of(source, streaming=False)):
            await asyncio.sleep(5)
        assert source.queries("list")[2] == {"resourceVersion": "10", "limit": "500"}

    async def test_an_expired_revision_is_followed_by_one_list_without_one_at_once(self):
        source = ScriptedSource(
            lists=[page([], 10), Expired(), page([], 11), page([], 12)],
            watches=[[status(410, "Expired")], [status(410, "Expired")], [Hang]],
        )
        async with running(informer_of(source, streaming=False)):
            await asyncio.sleep(20)
        asked = [query.get("resourceVersion") for query in source.queries("list")]
        assert asked == ["0", "10", None, "11"]
        assert source.times("list")[1] == source.times("list")[2]

    async def test_a_snapshot_that_expires_between_pages_is_read_at_once_in_whole(self):
        source = ScriptedSource(
            lists=[page([thing("a", 1)], 10, "next"), Expired(), page([thing("b", 2)], 12)]
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert names(informer) == ["b"]
            assert informer.lister.resource_version == "12"
        assert source.queries("list") == [
            {"resourceVersion": "0", "limit": "500"},
            {"continue": "next", "limit": "500"},
            {"resourceVersion": "0"},
        ]

    @pytest.mark.parametrize(
        ("message", "causes"),
        [
            ("Timeout: Too large resource version: 9, current: 3", []),
            ("slow", [("", "Too large resource version")]),
            ("slow", [("ResourceVersionTooLarge", "")]),
        ],
    )
    async def test_each_spelling_of_too_large_escalates(self, message, causes):
        error = error_from_status(504, "Timeout", message, causes=causes)
        assert type(error) is ResourceVersionTooLarge
        source = ScriptedSource(
            lists=[page([], 10), error, page([], 11)], watches=[[status(410)], [Hang]]
        )
        async with running(informer_of(source, streaming=False)):
            await asyncio.sleep(5)
        asked = [query.get("resourceVersion") for query in source.queries("list")]
        assert asked == ["0", "10", None]

    def test_listed_objects_keep_neither_the_list_nor_its_bytes_alive(self):
        ballast = thing("ballast", 2, unread=["x" * 500] * 20_000)
        tracemalloc.start()
        try:
            held = Codec(Thing).page(page([thing("a", 1), ballast], 3)).objects[0]
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] < 5_000_000
        finally:
            tracemalloc.stop()
        assert held.metadata.name == "a"

    @pytest.mark.parametrize(
        "body",
        [
            b'{"kind": "Table", "metadata": {"resourceVersion": "5"}, "rows": []}',
            b'{"kind": "Status", "metadata": {}, "code": 500}',
            b'{"kind": "ThingList", "items": []}',
            b'{"kind": "ThingList", "metadata": {}, "items": []}',
            b'{"metadata": {"resourceVersion": "5"}, "items": []}',
            b'{"kind": "ThingList", "metadata": {"resourceVersion": "5"}, "items": [',
            b"<html>",
        ],
    )
    async def test_what_is_not_a_list_with_metadata_never_reaches_the_store(self, body):
        source = ScriptedSource(lists=[body, page([thing("a", 1)], 2)])
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert not informer.has_synced
            assert "Malformed" in informer.statistics().last_error
            await asyncio.sleep(2)
            assert names(informer) == ["a"]
            assert informer.statistics().last_error == ""

    async def test_a_table_inside_an_event_is_skipped(self):
        wrapped = event("ADDED", {"kind": "Table", "metadata": {}, "rows": [{"object": {}}]})
        source = ScriptedSource(lists=[EMPTY], watches=[[wrapped, added("a", 2), Hang]])
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert names(informer) == ["a"]
            assert informer.statistics().skipped == 1

    async def test_a_list_older_than_the_store_is_refused_and_redone_at_quorum(self):
        source = ScriptedSource(
            lists=[page([thing("a", 90)], 100), page([], 95), page([thing("b", 101)], 102)],
            watches=[[status(410)], [Hang]],
        )
        informer = informer_of(source, streaming=False)
        revisions: list[str] = []
        informer.on_change(lambda _changes, revision: revisions.append(revision))
        async with running(informer):
            await asyncio.sleep(5)
        asked = [query.get("resourceVersion") for query in source.queries("list")]
        assert asked == ["0", "100", None]
        assert revisions == ["100", "102"]
        assert informer.statistics().relists == {"Expired": 1, "stale": 1}

    @pytest.mark.parametrize(
        "watches",
        [[[bookmark(9), bookmark(3), Hang]], [[bookmark(10)], [Hang], [Hang]]],
        ids=["a bookmark older than the store", "no bookmark for two periods"],
    )
    async def test_a_sign_leads_to_a_list_at_quorum_and_an_older_one_ends_all(self, watches):
        source = ScriptedSource(
            lists=[page([thing("a", 3)], 9), page([thing("b", 2)], 4)], watches=[*watches, [Hang]]
        )
        informer = informer_of(source, streaming=False)
        with pytest.raises(
            HistoryChanged, match=r"^things in all namespaces went back from \d+ to 4"
        ):
            await informer.run()
        assert "resourceVersion" not in source.queries("list")[1]
        assert names(informer) == ["a"], "nothing is published of it"

    async def test_a_server_that_did_not_go_back_is_only_listed(self):
        source = ScriptedSource(
            lists=[page([thing("a", 3)], 9), page([thing("a", 3)], 10)],
            watches=[[bookmark(10)], [Hang], [Hang]],
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(160)
            assert informer.statistics().relists == {"rewound": 1}

    async def test_a_relist_on_request_happens_at_once_and_once(self, caplog):
        source = ScriptedSource(lists=[EMPTY] * 9, watches=[[Hang]] * 9)
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            for _ in range(3):
                informer.relist("a sign")
            await settle()
            assert informer.statistics().lists == 2
            informer.relist("another sign")
            await settle()
            assert informer.statistics().lists == informer.statistics().streams == 3
        assert caplog.messages == [
            f"things in all namespaces: {sign}; listing at quorum"
            for sign in ("a sign", "another sign")
        ]

    async def test_a_relist_on_request_follows_a_list_that_is_under_way(self, caplog):
        source = ScriptedSource(lists=[EMPTY] * 9, watches=[[Hang]] * 9)
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle(2)
            assert informer.statistics().state == "Listing"
            informer.relist("a sign")
            await settle()
            assert informer.statistics().relists == {"rewound": 1}
        assert caplog.messages == ["things in all namespaces: a sign; listing at quorum"]

    async def test_a_relist_on_request_may_follow_while_the_last_one_ends_the_watch(self):
        source = ScriptedSource(lists=[EMPTY] * 9, watches=[[Hang]] * 9)
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            while informer.statistics().state == "Watching":
                informer.relist("a sign")
                await settle(1)
            await settle()
            assert informer.statistics().relists == {"rewound": 1}

    async def test_a_relist_on_request_may_follow_a_silence(self):
        source = ScriptedSource(lists=[EMPTY] * 9, watches=[Hang, [Hang]])
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(reflector.START_TIMEOUT)
            informer.relist("a sign")
            await settle()
            assert informer.statistics().relists == {"rewound": 1}

    async def test_a_relist_may_be_requested_where_an_error_is_told(self):
        source = ScriptedSource(lists=[EMPTY] * 9, watches=[[Pause(10), Disconnected()], [Hang]])
        informer = informer_of(source, streaming=False)
        informer.on_error(lambda _: informer.relist("a sign"))
        async with running(informer):
            await asyncio.sleep(20)
            assert informer.statistics().relists == {"rewound": 1}

    async def test_an_answer_that_never_begins_is_no_sign_of_it(self):
        source = ScriptedSource(lists=[EMPTY], watches=[[bookmark(9)], Hang, [Hang]])
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(60)
            assert informer.statistics().relists == {}
            assert informer.statistics().watch_restarts["silent"] == 1

    async def test_a_watch_that_breaks_after_a_while_is_resumed_without_a_list(self):
        source = ScriptedSource(lists=[EMPTY], watches=[[Pause(10), Disconnected()], [Hang]])
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(60)
            assert informer.statistics().relists == {}
            assert informer.statistics().watch_restarts == {"Disconnected": 1}

    async def test_a_relist_on_request_does_not_cut_a_streaming_list(self):
        initial = [added("a", 3), Pause(5), end_bookmark(9), Hang]
        source = ScriptedSource(streams=[initial, [end_bookmark(10), Hang]])
        informer = informer_of(source)
        async with running(informer):
            await asyncio.sleep(1)
            informer.relist("a sign")
            await asyncio.sleep(3)
            assert informer.statistics().state == "Streaming"
            assert informer.statistics().fall_backs == 0
            await asyncio.sleep(3)
            assert informer.statistics().relists == {"rewound": 1}

    async def test_after_a_definition_changed_objects_of_equal_revisions_are_read_again(self):
        same = thing("a", 1)
        source = ScriptedSource(
            lists=[page([same], 1), page([thing("a", 1, colour="red")], 1), page([same], 1)],
            watches=[[Hang]] * 9,
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            await informer.reread("the definition has changed")
            found = informer.lister.get("ns/a")
            assert found is not None
            assert found.colour == "red"
            informer.relist("a sign")
            await settle()
            assert informer.lister.get("ns/a") is found


class TestTimeouts:
    async def test_timeouts_are_spread_and_never_below_five_minutes(self):
        source = ScriptedSource(
            lists=[EMPTY], watches=[[bookmark(n)] for n in range(2, 60)] + [[Hang]]
        )
        async with running(informer_of(source, streaming=False)):
            await settle(1000)
        timeouts = [int(query["timeoutSeconds"]) for query in source.queries("watch")]
        assert len(timeouts) == 59
        assert all(300 <= timeout < 600 for timeout in timeouts)
        assert max(timeouts) - min(timeouts) > 150

    def test_only_a_streaming_list_asks_for_initial_events(self):
        memory = ReflectorContext()
        streaming = watch_query(Streaming(memory), "7", 300)
        assert streaming == {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "300",
            "resourceVersion": "7",
            "resourceVersionMatch": "NotOlderThan",
            "sendInitialEvents": "true",
        }
        assert "resourceVersion" not in watch_query(Streaming(memory), "", 300)
        assert "resourceVersion" not in watch_query(
            Streaming(ReflectorContext(at_quorum=True)), "7", 300
        )
        assert watch_query(Watching(memory), "7", 300) == {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "300",
            "resourceVersion": "7",
        }

    async def test_in_list_mode_the_watch_never_asks_for_initial_events(self):
        source = ScriptedSource(lists=[EMPTY], watches=[[bookmark(2)], [bookmark(3)], [Hang]])
        async with running(informer_of(source, streaming=False)):
            await settle()
        assert len(source.queries("watch")) == 3
        assert all("sendInitialEvents" not in query for query in source.queries("watch"))

    def test_the_server_s_rules_for_parameters_are_kept_in_every_state(self):
        for memory in (
            ReflectorContext(),
            ReflectorContext(at_quorum=True),
            ReflectorContext(paginates=True),
        ):
            for held in ("", "7"):
                request = list_request(Listing(memory), held)
                assert "resourceVersionMatch" not in request.first_page()
                assert set(request.next_page("x")) == {"continue", "limit"}
                query = watch_query(Streaming(memory), held, 300)
                assert query["resourceVersionMatch"] == "NotOlderThan"

    async def test_a_silent_socket_is_left_and_the_watch_resumed_without_a_list(self):
        source = ScriptedSource(
            lists=[EMPTY], watches=[[added("a", 2), bookmark(5), Hang], [added("b", 6), Hang]]
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(179)
            assert len(source.queries("watch")) == 1
            await asyncio.sleep(2)
            assert source.requests[1].closed == 1
            assert source.queries("watch")[1]["resourceVersion"] == "5"
            assert names(informer) == ["a", "b"]
            assert len(source.queries("list")) == 1
            assert informer.statistics().watch_restarts == {"silent": 1}

    async def test_without_bookmarks_silence_is_borne_until_the_server_should_have_ended(self):
        source = ScriptedSource(lists=[EMPTY], watches=[[added("a", 2), Hang], [Hang]])
        async with running(informer_of(source, streaming=False)):
            await asyncio.sleep(700)
        first, second = source.times("watch")
        assert second - first == int(source.queries("watch")[0]["timeoutSeconds"]) + 5

    async def test_data_keeps_a_stream_alive_and_a_normal_end_passes(self):
        beats = [step for n in range(2, 5) for step in (bookmark(n), Pause(100))]
        source = ScriptedSource(lists=[EMPTY], watches=[[*beats, added("a", 9)], [Hang]])
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(310)
            assert informer.statistics().watch_restarts == {"ended": 1}
            assert names(informer) == ["a"]

    async def test_a_watch_whose_answer_never_begins_is_tried_again(self):
        source = ScriptedSource(lists=[EMPTY], watches=[Hang, [added("a", 2), Hang]])
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await asyncio.sleep(31)
            assert names(informer) == ["a"]
            assert len(source.queries("list")) == 1

    async def test_a_cancelled_list_ends_the_wait_at_once(self):
        source = ScriptedSource()
        async with running(informer_of(source, streaming=False)) as run:
            await settle()
            run.cancel()
            await asyncio.wait([run], timeout=0.001)
            assert run.cancelled()


class TestBackoff:
    def test_each_delay_is_its_step_times_one_to_two(self):
        ladder = RetryBackoff(random.Random(3))
        steps = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30]
        delays = [ladder.delay(0.0) for _ in steps]
        assert all(step <= delay < 2 * step for step, delay in zip(steps, delays, strict=True))
        assert len({delay / step for step, delay in zip(steps, delays, strict=True)}) > 5

    def test_only_quiet_time_since_the_last_delay_resets_the_ladder(self):
        ladder = RetryBackoff(random.Random(3))
        now, delays = 0.0, []
        for _ in range(20):
            delays.append(ladder.delay(now))
            now += delays[-1] + 119
        assert delays[-1] >= 30
        assert 0.8 <= ladder.delay(now + 1) < 1.6

    async def test_the_stream_backs_off_and_the_ladder_climbs_until_stopped(self):
        source = ScriptedSource(lists=[EMPTY] * 99, watches=[Failed(500)] * 99)
        async with running(informer_of(source, streaming=False)) as run:
            await asyncio.sleep(300)
            seen = len(source.requests)
            run.cancel()
            await asyncio.wait([run])
        gaps = source.times("list")
        assert 40 > gaps[2] - gaps[1] > gaps[1] - gaps[0] > 0.7
        await asyncio.sleep(300)
        assert len(source.requests) == seen

    async def test_half_an_hour_of_failure_never_falls_back_to_the_first_step(self):
        source = ScriptedSource(lists=[Failed(500)] * 200)
        async with running(informer_of(source, streaming=False)):
            await asyncio.sleep(1800)
        times = source.times("list")
        late = [b - a for a, b in pairwise(times)][6:]
        assert len(late) > 20
        assert min(late) >= 30

    async def test_after_two_healthy_minutes_the_ladder_starts_anew(self):
        source = ScriptedSource(
            lists=[Failed(500)] * 8 + [EMPTY, EMPTY],
            watches=[[Pause(150), status(500, "Odd")], [Hang]],
        )
        async with running(informer_of(source, streaming=False)):
            await asyncio.sleep(900)
        failed = source.times("watch")[0] + 150
        assert 0.8 <= source.times("list")[9] - failed < 1.6


async def test_the_store_s_revision_reaches_the_one_that_was_written():
    server = FakeServer()
    informer = informer_of(server)
    async with running(informer):
        await informer.wait_for_sync()
        written = server.put("a")
        await settle()
        assert informer.lister.resource_version == str(written)
        assert informer.lister.get("ns/a").metadata.resource_version == str(written)


def test_a_reflector_begins_with_a_streaming_list_if_it_may():
    assert first_state(streaming=True) == Streaming(ReflectorContext())
    assert isinstance(first_state(streaming=False), Listing)
