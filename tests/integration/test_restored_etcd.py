"""An etcd that is restored from a copy of its folder while the operator runs."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from tests.integration.fleets import OLD, Fleets
from tests.integration.harness import World, real_world
from tests.integration.test_restored import ended, ready_workers
from tests.lab.control_plane import control_plane
from tests.ports import free_ports

pytestmark = [pytest.mark.real_only, pytest.mark.real_time, pytest.mark.timeout(900)]


class ControlPlane:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports = free_ports(3)
        self._running = ExitStack()

    async def start(self) -> Path:
        running = control_plane(self.folder, controllers=False, ports=self._ports)
        plane = await asyncio.to_thread(self._running.enter_context, running)
        return plane.kubeconfig

    async def stop(self) -> None:
        await asyncio.to_thread(self._running.close)

    async def copy(self) -> None:
        await self.stop()
        shutil.copytree(self.folder / "etcd", self.folder / "copy")
        await self.start()

    async def restore(self) -> None:
        await self.stop()
        shutil.rmtree(self.folder / "etcd")
        (self.folder / "copy").rename(self.folder / "etcd")
        await self.start()


async def test_an_etcd_that_is_restored_ends_the_process_and_the_next_one_follows(tmp_path: Path):
    plane = ControlPlane(tmp_path)
    try:
        async with real_world(str(await plane.start()), cleanup=False) as world:
            await _restore(world, plane)
    finally:
        await plane.stop()


async def test_a_fleet_is_followed_into_an_earlier_state_of_etcd(tmp_path: Path):
    plane = ControlPlane(tmp_path)
    try:
        async with real_world(str(await plane.start()), cleanup=False) as world:
            await _restore_fleet(world, plane)
    finally:
        await plane.stop()


async def _restore_fleet(world: World, plane: ControlPlane) -> None:
    fleets = Fleets(world)
    operator = fleets.start_operator()
    await fleets.create(replicas=1)
    await fleets.completes(OLD, 1, seconds=120)
    await plane.copy()
    await fleets.scale(3)
    await fleets.completes(OLD, 3, seconds=180)
    await world.settle(100)  # a bookmark on every watch

    await plane.restore()
    await ended(world, operator, seconds=240)
    fleets.start_operator()
    # the copies may be seen to be gone before the fleet that asked for them is
    await world.eventually(lambda: _has_copies(fleets, 1), seconds=120)
    await fleets.scale(2)
    await world.eventually(lambda: _has_copies(fleets, 2))


async def _has_copies(fleets: Fleets, count: int) -> bool:
    return len(await fleets.clusters()) == count


async def _has_workers(world: World, count: int) -> bool:
    """Whether there are so many, ready or not: the simulated kubelet is blind for longer."""
    workers = "ray.io/node-type=worker"
    pods = await world.user.list(PODS, world.namespace, label_selector=workers)
    return len(pods.items) == count


async def _restore(world: World, plane: ControlPlane) -> None:
    operator = world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    await plane.copy()
    await world.scale(4)
    await world.eventually(lambda: ready_workers(world, 4), seconds=120)
    for number in range(100):
        patch = {"metadata": {"annotations": {"n": str(number)}}}
        await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", patch)
    await world.settle(100)  # a bookmark on every watch

    await plane.restore()
    await ended(world, operator, seconds=240)
    world.start_operator()
    assert (await world.cluster()).spec["workerGroupSpecs"][0]["replicas"] == 2
    await world.scale(3)
    await world.eventually(lambda: _has_workers(world, 3))
