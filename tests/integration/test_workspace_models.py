"""Models that are not in the catalogue, on an API server, with a Hugging Face that fails."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from controller.kaito.api import labels
from controller.kaito.lookups.huggingface import Document, WorkspaceLookups
from controller.kaito.workspace.kind import WorkspaceKind
from tests.integration.harness import RunningOperator, embedded_world
from tests.integration.sweeps import Kill, Sweep, at_each_kill
from tests.integration.workspaces import Workspaces, opened
from tests.kaito.lookups.hub import FakeHub
from tests.kaito.support import inference

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]
NAME = "Somebody/Some-Model"
MODEL: dict[str, Any] = {"inference": inference(NAME)}


def run_operator(spaces: Workspaces, hub: FakeHub, **more: Any) -> RunningOperator:
    world = spaces.world
    lookups = WorkspaceLookups(world.client("lookups"), world.loop, hub)  # type: ignore[arg-type]
    return world.start_operator(kinds=[WorkspaceKind(lookups=lookups)], **more)


def down(_path: str, _token: str) -> Document:
    return Document(503)


async def test_a_model_is_looked_up_and_served(spaces: Workspaces):
    hub = FakeHub()
    run_operator(spaces, hub)
    await spaces.create(**MODEL)
    await spaces.has_nodes()
    await spaces.world.settle(5)
    command = " ".join((await spaces.server()).spec.template.spec.containers[0].command)
    assert "--model=somebody/some-model " in command
    assert labels.MODEL in ((await spaces.workspace()).metadata.annotations or {})
    assert len(hub.asked) == 2
    assert spaces.referee.created == {"phi": 1}


async def test_while_there_is_no_answer_nothing_is_claimed_and_few_requests_are_made(
    spaces: Workspaces,
):
    hub = FakeHub(fault=down)
    operator = run_operator(spaces, hub)
    await spaces.create(**MODEL)
    await spaces.reaches("ResourceReady", "False", "ModelMetadataUnavailable")
    assert "status 503" in (await spaces.condition("ResourceReady"))[2]
    await spaces.world.settle(5)
    begun, asked = len(operator.transport.journal.entries), len(hub.asked)
    await spaces.world.settle(3600)
    sent = [each.attributes.verb for each in operator.transport.journal.entries[begun:]]
    assert [verb for verb in sent if verb not in {"get", "list", "watch"}] == []
    assert 5 <= len(hub.asked) - asked <= 15
    assert not spaces.referee.created

    hub.fault = None
    await spaces.has_nodes(seconds=900)
    assert spaces.referee.created == {"phi": 1}


async def test_answers_that_never_come_hold_no_worker(spaces: Workspaces):
    hub = FakeHub()

    async def never(*_path: Any, **_more: Any) -> Document:
        hub.asked.append(("", ""))
        await asyncio.sleep(1e6)
        raise AssertionError

    hub.get = never  # type: ignore[method-assign]
    run_operator(spaces, hub, workers=1)
    for number in range(20):
        await spaces.create(f"w{number}", inference=inference(f"some/model-{number}"))
    await spaces.world.settle(10)
    assert len(hub.asked) == 4
    await spaces.create("known")
    await spaces.reaches("NodeClaimReady", "False", "NodeClaimNotReady", "known", seconds=1)
    await spaces.reaches("ResourceReady", "False", "LookupTimeout", "w0")


async def test_what_serves_depends_on_hugging_face_no_more(spaces: Workspaces):
    operator = run_operator(spaces, FakeHub())
    await spaces.create(**MODEL)
    await spaces.has_nodes()
    await operator.kill()
    [claim] = await spaces.claims()
    hub = FakeHub(fault=down)
    run_operator(spaces, hub)
    await spaces.world.settle(600)
    assert hub.asked == []
    assert [each.metadata.uid for each in await spaces.claims()] == [claim.metadata.uid]
    assert (await spaces.condition("ResourceReady"))[0] == "True"

    await spaces.delete()
    await spaces.world.eventually(spaces.is_gone)


async def test_one_look_up_answers_all_workspaces(spaces: Workspaces):
    hub = FakeHub()
    run_operator(spaces, hub)
    for number in range(20):
        await spaces.create(f"w{number}", **MODEL)
    await spaces.reaches("ResourceReady", "False", "NodeClaimNotReady", "w19", seconds=30)
    await spaces.world.settle(30)
    assert len(hub.asked) == 2
    assert len(spaces.referee.created) == 20


# crashes

Outcome = tuple[int, int, int, str]
"""Claims that were ever created, those deleted, the most at a time, and the facts that are kept."""


async def looked_up(spaces: Workspaces) -> Outcome:
    await spaces.create(**MODEL)
    await spaces.has_nodes(seconds=900)
    await spaces.world.settle(120)
    referee, kept = spaces.referee, (await spaces.workspace()).metadata.annotations or {}
    return referee.created["phi"], referee.deleted["phi"], referee.most["phi"], kept[labels.MODEL]


@at_each_kill
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("silence")
async def test_killed_at_any_single_write_a_model_that_was_looked_up_gets_one_claim(fault: Kill):
    sweep = Sweep[Outcome]()
    async with embedded_world() as world, opened(world) as spaces:
        start = partial(run_operator, spaces, FakeHub())
        sweep.disturb(fault, world, start(), again=start)
        await world.settle(30)
        played = await sweep.play(looked_up(spaces))
        assert played[:3] == (1, 0, 1)
    assert sweep.places > 6
    assert sweep.all_but(played) == {}
