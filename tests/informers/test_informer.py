"""The shared informer from end to end, against a small fake server."""

from __future__ import annotations

import asyncio

import pytest

from informers import HistoryChanged, InvalidResourceVersion, ReflectorSettings
from tests.informers.doubles import (
    FakeServer,
    Hang,
    Pause,
    Recorder,
    ScriptedSource,
    added,
    deleted,
    informer_of,
    page,
    running,
    settle,
    status,
    thing,
)


async def test_an_informer_mirrors_a_collection_and_tells_its_handlers():
    server = FakeServer()
    server.put("a")
    informer = informer_of(server, indexes={"colour": lambda thing: [thing.colour]})
    recorder = Recorder()
    informer.add_handler(recorder)
    revisions: list[str] = []
    informer.on_advance(revisions.append)
    async with running(informer):
        await informer.wait_for_sync()
        server.put("b", colour="red")
        server.put("a", colour="red")
        server.delete("a")
        await settle()
        assert informer.lister.resource_version == str(server.revision)
        assert [thing.metadata.name for thing in informer.lister.by_index("colour", "red")] == ["b"]
        assert informer.statistics().state == "Watching"
        assert informer.statistics().mode == "streaming"
    assert recorder.calls == [
        ("add", "a", "2", True),
        ("add", "b", "3", False),
        ("update", "a", "2", "4"),
        ("delete", "a", "5"),
    ]
    assert revisions == ["2", "3", "4", "5"]


async def test_the_time_of_the_last_list_is_when_it_was_complete():
    lists = [page([], 5), page([], 9)]
    watches = [[Pause(7.0), status(410, "Expired")], [Hang]]
    settings = ReflectorSettings(streaming=False)
    informer = informer_of(ScriptedSource(lists=lists, watches=watches), settings=settings)
    assert informer.statistics().last_list is None
    began = asyncio.get_running_loop().time()
    async with running(informer):
        await asyncio.sleep(5)
        assert informer.statistics().last_list == began
        await asyncio.sleep(60)
        listed = informer.statistics().last_list
        assert listed is not None
        assert 7.0 <= listed - began < 60.0


async def test_a_list_of_another_history_ends_the_informer_although_its_revision_is_higher():
    lists = [page([thing("a", 50)], 100), page([thing("a", 50), thing("b", 60)], 120)]
    source = ScriptedSource(lists=lists, watches=[[status(410, "Expired")], [Hang]])
    informer = informer_of(source, settings=ReflectorSettings(streaming=False))
    with pytest.raises(HistoryChanged) as raised:
        await informer.run()
    assert str(raised.value) == (
        "things in all namespaces: ns/b has been at 60, and the store at 100 has not shown it"
    )
    assert [each.metadata.name for each in informer.lister.list()] == ["a"]
    assert informer.resource_version == "100"


async def test_a_server_whose_revisions_are_no_numbers_is_refused():
    informer = informer_of(
        ScriptedSource(lists=[page([], "abc")]), settings=ReflectorSettings(streaming=False)
    )
    with pytest.raises(InvalidResourceVersion, match="things in all namespaces: 'abc'"):
        await informer.run()


async def test_what_came_and_went_up_to_a_confirmed_revision_is_not_shown_again():
    late = [Pause(60.0), added("gone", 6), deleted("gone", 7), added("new", 10), Hang]
    source = ScriptedSource(lists=[page([], 5)], watches=[late])
    informer = informer_of(source, settings=ReflectorSettings(streaming=False))
    recorder, revisions = Recorder(), list[str]()
    informer.add_handler(recorder)
    informer.on_advance(revisions.append)
    async with running(informer):
        await informer.wait_for_sync()
        informer.advance("9")
        await asyncio.sleep(90)
    assert recorder.calls == [("add", "new", "10", False)]
    assert revisions == ["5", "9", "10"]
