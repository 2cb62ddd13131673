"""Only so many containers start at once on one machine."""

from __future__ import annotations

import asyncio

import pytest

from devcluster.processes.pod_managers import StartSlots
from tests.devcluster.processes.conftest import sh

pytestmark = pytest.mark.real_time

NEVER = {"exec": {"command": ["false"]}, "periodSeconds": 1}


def runs(pod) -> bool:
    return pod.status.phase == "Running"


def waits(pod) -> bool:
    return any(one.state.waiting.message for one in pod.status.container_statuses)


def initialises(pod) -> bool:
    return any(one.state.running for one in pod.status.init_container_statuses)


async def test_a_container_starts_when_another_is_ready_or_has_ended(world, tmp_path):
    signal = tmp_path / "ready"
    ready = {"exec": {"command": ["test", "-e", str(signal)]}, "periodSeconds": 1}
    async with world.node(starts=1, start_time=3600.0):
        await world.create("a", sh("exec sleep 60", readinessProbe=ready))
        await world.until("a", runs)
        await world.create("b", sh("exit 0", readinessProbe=NEVER))
        await world.create("c", sh("exec sleep 60"))
        for _ in range(3):
            await asyncio.sleep(0.1)
            assert [(await world.pod(name)).status.phase for name in "bc"] == ["Pending"] * 2
        signal.touch()
        await world.phase("b", "Succeeded")
        await world.until("c", runs)


async def test_a_container_that_is_never_ready_holds_others_back_for_a_time_only(world):
    async with world.node(starts=1, start_time=0.5):
        await world.create("a", sh("exec sleep 60", readinessProbe=NEVER))
        await world.until("a", runs)
        await world.create("b", sh("exec sleep 60"))
        await world.until("b", runs)


async def test_containers_that_cannot_start_and_those_that_wait_for_others_delay_no_others(world):
    missing = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "a"}}}]
    async with world.node(starts=1, start_time=3600.0):
        await world.create("a", sh("exec sleep 60", env=missing))
        await world.until("a", waits)
        await world.create("b", sh("true"), initContainers=[sh("exec sleep 60", name="waits")])
        await world.until("b", initialises)
        await world.create("c", sh("exec sleep 60"))
        await world.until("c", runs)


async def test_a_deleted_pod_gives_its_turn_back(world):
    async with world.node(starts=1, start_time=3600.0):
        for name in "ab":
            await world.create(name, sh("exec sleep 60", readinessProbe=NEVER))
        await world.until("a", runs)
        for name in "ba":
            await world.delete(name, grace=0)
            await world.gone(name)
        await world.create("c", sh("exec sleep 60"))
        await world.until("c", runs)


async def test_a_turn_is_given_back_once():
    slots = StartSlots(1, 3600.0)
    first = await slots.take()
    first.release()
    first.release()
    second = await slots.take()
    waiting = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    second.release()
    (await waiting).release()
