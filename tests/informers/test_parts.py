"""Small parts of informers, each by itself."""

from __future__ import annotations

import asyncio
import random

import pytest

from informers import (
    IndexFunctionError,
    InformerFactory,
    ReflectorSettings,
    SharedInformer,
    Transform,
    WatchSelection,
)
from informers.handlers import HandlerRegistration
from informers.processor import Added
from informers.revisions import is_newer, is_older
from informers.store import Store
from tests.informers.doubles import (
    Hang,
    Meta,
    Recorder,
    ScriptedSource,
    Thing,
    added,
    bookmark,
    informer_of,
    page,
    running,
    settle,
)

A = Thing(Meta("a", "ns", "uid-a", "5"), "red", 3)
PAGED = ReflectorSettings(streaming=False)


def test_revisions_that_cannot_be_compared_are_new_and_never_old():
    for a, b in ("opaque", "5"), ("5", "opaque"), ("", "5"):
        assert is_newer(a, b)
        assert not is_older(a, b)
    assert not is_newer("5", "5")
    assert not is_older("5", "5")


def test_an_index_keeps_its_name_when_the_store_is_replaced():
    store: Store[Thing] = Store({"picky": lambda obj: [obj.colour.nothing]})
    with pytest.raises(IndexFunctionError, match=r"^there is already an index 'picky'$"):
        store.add_index("picky", lambda obj: [])
    store.replace([], "5")
    with pytest.raises(IndexFunctionError, match=r"^index 'picky' on ns/a: AttributeError"):
        store.put(A)


def test_an_object_whose_transform_fails_is_stored_as_it_came_unless_it_must_be_redacted():
    def fail(obj: Thing) -> Thing:
        raise RuntimeError

    assert Transform(fail)(A) is A
    assert Transform(fail, redacting=True)(A) == Thing(A.metadata)


async def test_a_handler_has_room_until_its_queue_is_longer_than_the_backlog():
    registration = HandlerRegistration(Recorder(), "h", 2, lambda _: None)
    registration.enqueue([Added(A), Added(A)])
    async with asyncio.timeout(1):
        await registration.wait_for_capacity()
    registration.enqueue([Added(A)])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await registration.wait_for_capacity()
    registration.drain(1)
    async with asyncio.timeout(1):
        await registration.wait_for_capacity()
    assert registration.statistics().queued == 2


async def test_statistics_tell_when_what_came_last():
    steps = [added("a", 6), bookmark(7), Hang]
    source = ScriptedSource(lists=[page([], 5)], watches=[steps])
    informer = informer_of(source, settings=PAGED)
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


async def test_a_factory_hands_on_what_it_was_given():
    recorders: list[Recorded] = []

    def recorder(selection: WatchSelection) -> Recorded:
        recorders.append(Recorded(selection))
        return recorders[-1]

    source = ScriptedSource(lists=[page([{"metadata": {"name": "a"}}], 5)])
    factory = InformerFactory(
        lambda _: source,
        clock=asyncio.get_running_loop(),
        rng=random.Random(1),
        settings=PAGED,
        metrics=recorder,
    )
    selection = WatchSelection("things")
    informer: SharedInformer[Thing] = factory.informer(
        selection,
        Thing,
        indexes={"colour": lambda obj: [obj.colour]},
        transform=Transform(lambda obj: Thing(obj.metadata, "blue")),
    )
    run = asyncio.create_task(factory.run())
    await settle()
    assert [obj.colour for obj in informer.lister.by_index("colour", "blue")] == ["blue"]
    run.cancel()
    await asyncio.wait([run])
    [found] = recorders
    assert (found.selection, found.events) == (selection, ["started", "processed", "stopped"])


class Recorded:
    """The metrics of one informer."""

    def __init__(self, selection: WatchSelection) -> None:
        self.selection = selection
        self.events: list[str] = []

    def started(self, statistics: object, /) -> None:
        self.events.append("started")

    def processed(self, seconds: float, /) -> None:
        self.events.append("processed")

    def stopped(self) -> None:
        self.events.append("stopped")
