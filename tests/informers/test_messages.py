"""What informers write to the log and into errors, word by word: operators search for it."""

from __future__ import annotations

import asyncio
import random

import pytest

from informers import (
    AlreadyStarted,
    BackoffSettings,
    Codec,
    Disconnected,
    Expired,
    Failed,
    InformerFactory,
    InformerStopped,
    Malformed,
    NotWatched,
    ReflectorSettings,
    ShapeConflict,
    WatchSelection,
)
from informers.decoding.json_scanner import Unbalanced, path_below, split_json
from informers.events import Ignored
from informers.list_watch.pager import read_list
from informers.list_watch.requests import ListRequest
from tests.informers.doubles import (
    Hang,
    Pause,
    Recorder,
    ScriptedSource,
    Thing,
    added,
    bookmark,
    event,
    informer_of,
    page,
    running,
    settle,
    thing,
)

PAGED = ReflectorSettings(streaming=False)
EMPTY = page([], 5)
CODEC = Codec(Thing)


async def logged(caplog: pytest.LogCaptureFixture, **scripts: list) -> list[str]:
    """The log of an informer's first minutes with these answers."""
    settings = ReflectorSettings(streaming="streams" in scripts)
    async with running(informer_of(ScriptedSource(**scripts), settings=settings)):
        await asyncio.sleep(90)
    return caplog.messages


# Reflectors


async def test_each_event_that_is_skipped_is_told(caplog: pytest.LogCaptureFixture):
    watch = [event("ODDITY", thing("a", 9)), added("b", 2), event("ADDED", {}), Hang]
    assert await logged(caplog, lists=[EMPTY], watches=[watch]) == [
        (
            "things in all namespaces: skipped an event of type ODDITY: "
            "Invalid value 'ODDITY' - at `$.type`"
        ),
        "things in all namespaces: skipped an event at 2, the store is at 5",
        "things in all namespaces: skipped an object without name or revision",
    ]


async def test_it_is_told_what_failed_where_and_why(caplog: pytest.LogCaptureFixture):
    lists = [Failed(403, "Forbidden", "not for you"), EMPTY]
    watches = [[added("a", 6), added("b", 7)[:20]], [Hang]]
    assert await logged(caplog, lists=lists, watches=watches) == [
        "list things in all namespaces: Failed: 403 Forbidden: not for you",
        "watch things in all namespaces: Disconnected: the stream ended inside a line",
    ]


async def test_a_server_that_went_back_is_told_with_the_sign_and_both_revisions(
    caplog: pytest.LogCaptureFixture,
):
    watches = [[bookmark(3), Hang], [Hang]]
    assert await logged(caplog, lists=[EMPTY, page([], 4)], watches=watches) == [
        "things in all namespaces: a bookmark at 3, the store is at 5; listing at quorum",
        "things in all namespaces: the server went back from revision 5 to 4",
    ]


async def test_the_silence_of_a_server_that_sent_bookmarks_is_told(
    caplog: pytest.LogCaptureFixture,
):
    await asyncio.sleep(7)
    source = ScriptedSource(lists=[EMPTY, EMPTY], watches=[[bookmark(9)], [Hang], [Hang]])
    async with running(informer_of(source, settings=PAGED)):
        await asyncio.sleep(151)
    assert caplog.messages[0] == (
        "things in all namespaces: no bookmark for 150 s since 9; listing at quorum"
    )


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([Hang], "no event arrived"),
        (
            [Pause(20), added("a", 1), Hang],
            "they did not end, the last event arrived 60 s ago",
        ),
        ([Pause(20), added("a", 1)], "the stream ended before the initial events did"),
    ],
)
async def test_it_is_told_why_streaming_lists_are_given_up(
    steps: list, why: str, caplog: pytest.LogCaptureFixture
):
    assert await logged(caplog, streams=[steps], lists=[EMPTY]) == [
        f"things in all namespaces: paged instead of streaming lists for 3600 s: {why}"
    ]


async def test_streaming_lists_that_fail_are_given_up_with_the_error_beside(
    caplog: pytest.LogCaptureFixture,
):
    assert await logged(caplog, streams=[Failed(403, "Forbidden")], lists=[EMPTY]) == [
        "watch things in all namespaces: Failed: 403 Forbidden",
        "things in all namespaces: paged instead of streaming lists for 3600 s: they fail",
    ]


async def test_streaming_lists_that_expire_without_a_revision_are_given_up(
    caplog: pytest.LogCaptureFixture,
):
    streams = [Expired("too old"), Expired("too old")]
    assert (await logged(caplog, streams=streams, lists=[EMPTY]))[-1] == (
        "things in all namespaces: paged instead of streaming lists for 3600 s: "
        "they expire although they ask for no revision"
    )


# Informers and their handlers


async def test_an_exception_of_a_handler_is_logged_with_its_name(
    caplog: pytest.LogCaptureFixture,
):
    source = ScriptedSource(lists=[page([thing("a", 1)], 5)])
    informer = informer_of(source, settings=PAGED)
    informer.add_handler(Recorder(fail_on={"a"}), name="clumsy")
    async with running(informer):
        await settle()
    assert caplog.messages == ["handler clumsy failed"]


async def test_tasks_are_named_after_what_they_do():
    factory = InformerFactory(
        lambda _: ScriptedSource(),
        clock=asyncio.get_running_loop(),
        rng=random.Random(1),
    )
    factory.informer(WatchSelection("things", "ns"), Thing)
    run = asyncio.create_task(factory.run())
    await settle()
    names = {task.get_name() for task in asyncio.all_tasks()}
    run.cancel()
    await asyncio.wait([run])
    assert "informer things/ns" in names


async def test_misuse_of_an_informer_is_told_with_its_name():
    informer = informer_of(ScriptedSource(lists=[Failed(403)]), settings=PAGED)
    async with running(informer):
        await settle()
        with pytest.raises(AlreadyStarted, match=r"^things was run before$"):
            await informer.run()
    with pytest.raises(
        InformerStopped,
        match=r"^things stopped before it had synced: list things in all namespaces: Failed: 403$",
    ):
        await informer.wait_for_sync()
    with pytest.raises(InformerStopped, match=r"^things has stopped$"):
        informer.add_handler(Recorder())


class Other(Thing):
    pass


async def test_misuse_of_a_factory_is_told_with_the_selection():
    selection = WatchSelection("things", "ns")
    factory = InformerFactory(
        lambda _: ScriptedSource(lists=[Failed(403)]),
        clock=asyncio.get_running_loop(),
        rng=random.Random(1),
        settings=PAGED,
    )
    unknown = r"^there is no informer for things/ns$"
    with pytest.raises(NotWatched, match=unknown):
        factory.lister(selection)
    with pytest.raises(NotWatched, match=unknown):
        await factory.remove(selection)
    factory.informer(selection, Thing)
    with pytest.raises(ShapeConflict, match=r"^things/ns is watched already, as Thing$"):
        factory.informer(selection, Other)
    run = asyncio.create_task(factory.run())
    await settle()
    with pytest.raises(
        NotWatched,
        match=r"^things/ns has not synced: list things in all namespaces: Failed: 403$",
    ):
        factory.lister(selection)
    run.cancel()
    await asyncio.wait([run])
    with pytest.raises(AlreadyStarted, match=r"^an informer factory runs once$"):
        await factory.run()


def test_a_selection_names_its_namespace_and_selector():
    selection = WatchSelection("pods", "ns", "app=ray")
    assert str(selection) == "pods/ns (app=ray)"


# What a server sends


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"<html>", "not a list: neither an object nor an array"),
        (b"{}x", "not a list: something follows the last bracket"),
        (b'{"items":[', "not a list: a string or a bracket is not closed"),
        (b'{"kind":"Table"}', "asked for a list, got Table"),
        (b"{}", "asked for a list, got an object without a kind"),
        (b'{"kind":"ThingList"}', "a list without a resource version"),
        (b'{"kind":"ThingList","metadata":{}}', "a list without a resource version"),
    ],
)
def test_it_is_told_why_a_body_is_no_list(body: bytes, text: str):
    with pytest.raises(Malformed) as raised:
        CODEC.page(body)
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"type":"ADDED"}', "not an event: Object missing required field `object`"),
        (b"[]", "not an event: Expected `object`, got `array`"),
    ],
)
def test_it_is_told_why_a_line_is_no_event(line: bytes, text: str):
    with pytest.raises(Malformed) as raised:
        CODEC.event(line)
    assert str(raised.value) == text


def test_it_is_told_why_an_event_is_ignored():
    assert CODEC.event(event("BOOKMARK", {"metadata": {}})) == Ignored(
        "a bookmark without a revision"
    )


def test_it_is_told_what_is_wrong_with_brackets():
    with pytest.raises(Unbalanced, match=r"^neither an object nor an array$"):
        list(split_json(b"1"))
    with pytest.raises(Unbalanced, match=r"^something follows the last bracket$"):
        list(split_json(b"[] 1"))
    with pytest.raises(Unbalanced, match=r"^a string or a bracket is not closed$"):
        path_below(b'[["[[[', 3)


async def test_it_is_told_that_a_list_without_a_limit_came_in_pages():
    source = ScriptedSource(lists=[page([], 9, "c1"), Expired(), page([], 9, "c2")])
    with pytest.raises(Malformed, match=r"^a list without a limit came in pages$"):
        await read_list(source, CODEC, ListRequest(limit=2))


def test_errors_of_a_status_are_told_with_code_reason_and_message():
    assert str(Failed(403, "Forbidden", "not for you")) == "403 Forbidden: not for you"
    assert str(Failed(500)) == "500"
    assert str(Disconnected()) == ""


def test_a_back_off_that_never_grows_is_refused():
    with pytest.raises(ValueError, match=r"^reset_after must be longer than the longest delay$"):
        BackoffSettings(cap=60, reset_after=120)
