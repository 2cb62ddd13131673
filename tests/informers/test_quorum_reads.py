"""An informer knows when the latest quorum read began that its store has held."""

from __future__ import annotations

import asyncio

from informers import ReflectorSettings
from tests.informers.doubles import (
    Expired,
    Hang,
    Pause,
    ScriptedSource,
    added,
    end_bookmark,
    informer_of,
    page,
    running,
    settle,
    status,
)

PAGED = ReflectorSettings(streaming=False)


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


async def test_a_list_from_the_servers_cache_is_no_quorum_read():
    source = ScriptedSource(lists=[page([], 7)], watches=[[Hang]])
    informer = informer_of(source, settings=PAGED)
    async with running(informer):
        await settle()
        assert informer.has_synced
        assert informer.quorum_read is None


async def test_a_list_that_names_no_revision_is_a_quorum_read():
    source = ScriptedSource(
        lists=[page([], 10), Expired(), page([], 11)],
        watches=[[Pause(5), status(410, "Expired")], [Hang]],
    )
    informer = informer_of(source, settings=PAGED)
    async with running(informer):
        await asyncio.sleep(20)
        assert informer.resource_version == "11"
        assert informer.quorum_read == source.times("list")[2]
