"""What others than the user do around an operator for a while: rivals, backups, clocks, ..."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from tests.faults.restored import Backup
from tests.integration.harness import World
from tests.simulation.definition import Definition
from tests.simulation.nodes import NodesOfLife
from tests.simulation.referee import Referee
from tests.simulation.rivals import RivalController
from tests.simulation.scenario import ClockJump, Prune, RestoreDatabase, Rival

OTHERS_WRITES = 100_000
"""Revisions between a backup and its restore."""


class Others:
    """Begins what somebody else does, and ends it.

    Args:
        referee: hears of what definitions drop.
        user: held while a definition changes and the user writes his objects again.
    """

    nodes: NodesOfLife

    def __init__(self, world: World, referee: Referee, user: asyncio.Lock) -> None:
        self._world = world
        self._definition = Definition(world)
        referee.pruned = self._definition.pruned
        self._referee = referee
        self._user = user
        self._ahead = 0.0
        self._restores = 1
        self._under_way: list[asyncio.Task[None]] = []

    def wall(self) -> datetime:
        """The time of day where the operator runs."""
        return self._world.wall() + timedelta(seconds=self._ahead)

    def begin(
        self, action: Rival | Prune | RestoreDatabase | ClockJump, tasks: asyncio.TaskGroup
    ) -> None:
        """Do it from now on; a clock stays as it is until `over`."""
        match action:
            case ClockJump():
                self._ahead += action.seconds
            case Rival():
                self._under_way.append(tasks.create_task(self._dispute(action)))
            case Prune():
                self._under_way.append(tasks.create_task(self._prune(action)))
            case RestoreDatabase() if self._restores:
                self._restores -= 1
                self._under_way.append(tasks.create_task(self._restore(action)))
            case RestoreDatabase():
                pass

    async def over(self) -> None:
        """Wait until nothing is under way; then the clock is right again."""
        await asyncio.gather(*self._under_way)
        self._ahead = 0.0

    async def _dispute(self, rival: Rival) -> None:
        disputing = asyncio.create_task(RivalController(self._world, rival).run())
        await asyncio.sleep(rival.lasts)
        disputing.cancel()
        await asyncio.gather(disputing, return_exceptions=True)

    async def _prune(self, prune: Prune) -> None:
        async with self._user:
            await self._definition.drop(prune.field)
        await asyncio.sleep(prune.lasts)
        async with self._user:
            await self._definition.put_back(prune.field)

    async def _restore(self, action: RestoreDatabase) -> None:
        assert self._world.server is not None
        store = self._world.server.store
        backup = Backup(self._world.server)
        store.revision += OTHERS_WRITES
        await asyncio.sleep(action.lasts)
        async with self._user:
            backup.restore(revision=store.revision + 1 if action.bumped else None)
            self._referee.restored(store)
            await self.nodes.start()
