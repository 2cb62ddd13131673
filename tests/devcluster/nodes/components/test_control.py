"""Starting and stopping the node components, and the loop that all share."""

from __future__ import annotations

import asyncio
import random

import pytest
from structlog.testing import capture_logs

from controller.kube.errors import Forbidden
from controller.testing.faults import ErrorResponse, Rule
from devcluster.nodes import COMPONENTS
from devcluster.nodes.components import ControlLoop, record_event
from devcluster.nodes.kubelet import PodAddresses
from devcluster.nodes.pods import PODS
from tests.devcluster.nodes.conftest import World


class Sync:
    """Fails as told, then works; remembers when it was called for what."""

    def __init__(self, **failures: list[Exception]) -> None:
        self.failures = failures
        self.calls: list[tuple[float, str]] = []
        self.again: float | None = None

    async def __call__(self, key: str) -> float | None:
        self.calls.append((asyncio.get_running_loop().time(), key))
        if self.failures.get(key):
            raise self.failures[key].pop()
        return self.again


async def run(sync: Sync, *keys: str, seconds: float) -> list[str]:
    loop = asyncio.get_running_loop()
    control = ControlLoop("test", sync, clock=loop, rng=random.Random(1), workers=2)
    for key in keys:
        control.add(key)
    with capture_logs() as logs:
        task = asyncio.create_task(control.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return [entry["event"] for entry in logs]


async def test_an_exception_that_nobody_thought_of_is_said_aloud_and_stops_nobody() -> None:
    sync = Sync(a=[ZeroDivisionError()])
    assert await run(sync, "a", "b", seconds=60.0) == ["failed"]
    assert sorted(key for _, key in sync.calls) == ["a", "a", "b"]


async def test_an_event_in_the_same_words_is_counted(world: World) -> None:
    meta = (await world.create_pod("p")).metadata
    for message in ("no", "no", "yes", "no" + " no" * 1000):
        await record_event(
            world.user, PODS, meta, reason="R", message=message, component="c", now=world.wall()
        )
    found = await world.user.request_json("GET", "/api/v1/namespaces/default/events")
    counts = {event["message"]: event["count"] for event in found["items"]}
    assert {message: counts[message] for message in ("no", "yes")} == {"no": 2, "yes": 1}
    assert max(map(len, counts)) == 1024


async def test_an_unknown_component_is_refused(world: World) -> None:
    with pytest.raises(ValueError, match="no such component: scheduler"):
        async with world.nodes("kubelet", "scheduler"):
            pass


@pytest.mark.parametrize("component", sorted(COMPONENTS))
async def test_each_component_runs_alone_and_leaves_no_task_behind(
    world: World, component: str
) -> None:
    before = asyncio.all_tasks()
    async with world.nodes(component):
        await asyncio.sleep(1)
        assert asyncio.all_tasks() > before
    assert asyncio.all_tasks() == before


async def test_an_exception_of_the_body_comes_out_as_it_is(world: World) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with world.nodes():
            raise LookupError("mine")


async def test_what_keeps_a_component_from_starting_is_raised(world: World) -> None:
    rule = Rule(ErrorResponse(403, "Forbidden", "no nodes for you"), "nodes", frozenset({"create"}))
    with pytest.raises(Forbidden, match="no nodes for you"):
        async with world.nodes(rules=(rule,)):
            pass


def test_addresses_come_round_when_all_have_been_used() -> None:
    addresses = PodAddresses(size=10)
    for number in range(10):
        addresses.of(f"u-{number}")
    with pytest.raises(RuntimeError, match="no pod address"):
        addresses.of("one-more")
    addresses.release("u-7")
    assert addresses.of("one-more") == "10.244.0.8"
