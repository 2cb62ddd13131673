"""Starting and stopping the node components."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from controller.devcluster.nodes import COMPONENTS
from controller.devcluster.nodes.kubelet import PodAddresses, node_address
from controller.kube.errors import Forbidden
from controller.testing.faults import ErrorResponse, Rule

if TYPE_CHECKING:
    from conftest import World


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


async def test_a_cancelled_body_stays_cancelled(world: World) -> None:
    entered = asyncio.Event()

    async def body() -> None:
        async with world.nodes():
            entered.set()
            await asyncio.sleep(1000)

    task = asyncio.create_task(body())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_keeps_a_component_from_starting_is_raised(world: World) -> None:
    rule = Rule(ErrorResponse(403, "Forbidden", "no nodes for you"), "nodes", frozenset({"create"}))
    with pytest.raises(Forbidden, match="no nodes for you"):
        async with world.nodes(rules=(rule,)):
            pass


def test_addresses_are_given_out_once_until_they_are_released() -> None:
    addresses = PodAddresses()
    addresses.hold("old", "10.244.0.2")
    assert addresses.of("a") == "10.244.0.1"
    assert addresses.of("b") == "10.244.0.3"
    assert addresses.of("a") == "10.244.0.1"
    addresses.release("a")
    assert addresses.of("c") == "10.244.0.4"


def test_addresses_come_round_when_all_have_been_used() -> None:
    addresses = PodAddresses(size=10)
    for number in range(10):
        addresses.of(f"u-{number}")
    with pytest.raises(RuntimeError, match="no pod address"):
        addresses.of("one-more")
    addresses.release("u-7")
    assert addresses.of("one-more") == "10.244.0.8"


def test_nodes_have_addresses() -> None:
    assert node_address(0) == "172.18.0.2"
    assert node_address(300) == "172.18.1.46"
