"""The shared informer from end to end, against a small fake server."""

from __future__ import annotations

from tests.informers.doubles import FakeServer, Recorder, informer_of, running, settle


async def test_an_informer_mirrors_a_collection_and_tells_its_handlers():
    server = FakeServer()
    server.put("a")
    informer = informer_of(server, indexes={"colour": lambda thing: [thing.colour]})
    recorder = Recorder()
    registration = informer.add_handler(recorder)
    revisions: list[str] = []
    informer.on_advance(revisions.append)
    async with running(informer):
        await informer.wait_for_sync()
        await registration.wait_for_sync()
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
