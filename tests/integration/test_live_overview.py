"""The live screen of `manta dev`: what stands on it, and that it is kept up to date."""

from __future__ import annotations

import asyncio
import io

import pytest
from rich.console import Console

from controller.command.development.dev import live_overview, picture
from controller.command.status.reading import EVENTS, KINDS, read, watching
from tests.integration.harness import World
from tests.integration.test_status import AGENT, ill_cluster


async def screen(world: World) -> str:
    seen = await read(world.client(AGENT), [*KINDS, EVENTS], "")
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as captured:
        console.print(picture(seen, "a heading", world.wall()))
    return captured.get()


async def test_an_empty_cluster_has_the_heading_only(world: World):
    assert (await screen(world)).split() == ["a", "heading"]


async def test_objects_stand_there_with_state_and_first_cause_and_then_the_events(world: World):
    world.start_operator()
    await ill_cluster(world)
    await world.events_about("RayCluster", "example", "ImagePullBackOff")
    lines = (await screen(world)).splitlines()
    (row,) = [line for line in lines if line.startswith("default") and "not ready" in line]
    assert "raycluster/example" in row
    assert "group workers: pod example-workers-" in row
    events = lines[next(i for i, line in enumerate(lines) if line.startswith("last events")) :]
    assert any("ImagePullBackOff" in line for line in events)
    assert max(map(len, lines)) <= 160


async def test_many_objects_are_counted_instead_of_shown(world: World):
    for number in range(17):
        await world.create_cluster(f"c{number:02}")
    text = await screen(world)
    assert "raycluster/c14" in text
    assert "raycluster/c15" not in text
    assert "and 2 more; manta status -A shows all" in text


async def test_changes_appear_and_the_last_picture_stays(
    world: World, capsys: pytest.CaptureFixture[str]
):
    client = world.client(AGENT)
    nothing_yet = await read(client, [*KINDS, EVENTS], "")
    async with watching(client, nothing_yet, "") as watch, live_overview(watch, "a heading"):
        world.start_operator()
        await world.create_cluster()
        await world.eventually(world.is_ready)
        await asyncio.sleep(3)  # virtual seconds
    out = capsys.readouterr().out
    assert "raycluster/example" in out
    assert "ready" in out
