"""The shared informer from end to end, against a small fake server."""

from __future__ import annotations

import asyncio

from informers import ReflectorSettings
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


async def test_EXP45_a_list_of_another_history_is_a_reset_although_its_revision_is_higher(caplog):
    lists = [
        page([thing("a", 50)], 100),
        page([thing("a", 50, colour="other"), thing("b", 60)], 120),
    ]
    source = ScriptedSource(lists=lists, watches=[[status(410, "Expired")], [Hang]])
    informer = informer_of(source, settings=ReflectorSettings(streaming=False))
    told: list[str] = []
    informer.on_reset(lambda: told.append(f"reset {informer.resource_version}"))
    async with running(informer):
        await asyncio.sleep(60)
        found = informer.lister.get("ns/a")
        assert found is not None
        assert found.colour == "other", "equal revisions prove nothing"
        assert informer.statistics().resets == 1
    assert told == ["reset 120"]
    assert (
        "things in all namespaces: the server went back in time: "
        "ns/b has been at 60, and the store at 100 has not shown it"
    ) in caplog.messages


async def test_EXP27_what_came_and_went_up_to_a_confirmed_revision_is_not_shown_again():
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
