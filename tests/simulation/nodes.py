"""The components of the nodes of a life, which can be started anew, as after a restore of etcd."""

from __future__ import annotations

import asyncio
import random

from controller.testing.faults import FaultyTransport, Rule
from devcluster.nodes import NodeSettings, run_nodes
from tests.integration.harness import World


class NodesOfLife:
    """Runs from `start` until the world ends.

    Args:
        rules: what goes wrong between them and the server.
    """

    def __init__(self, world: World, settings: NodeSettings, rules: list[Rule]) -> None:
        self._world = world
        self._settings = settings
        self._rules = rules
        self._running = asyncio.create_task(asyncio.sleep(0))

    async def start(self) -> None:
        await self.stop()
        ready = asyncio.Event()
        self._running = asyncio.create_task(self._run(ready))
        await ready.wait()

    async def stop(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self, ready: asyncio.Event) -> None:
        world = self._world
        transport = FaultyTransport(world.transport, self._rules, clock=world.loop)
        async with run_nodes(
            world.client("manta-nodes", transport),
            clock=world.loop,
            wall=world.wall,
            rng=random.Random(world.rng.random()),
            settings=self._settings,
        ):
            ready.set()
            await asyncio.get_running_loop().create_future()
