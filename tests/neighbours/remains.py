"""Plays one cell of the table several times over, and looks at what is left in memory.

Each round has an object of another name, which is sick and is deleted. When the operator has had
the time to forget, nothing may tell of any of them, and of no type may there be one more object for
each round.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter

from controller.runtime.recorder import SILENCE
from controller.runtime.repairs import FORGOTTEN_AFTER
from tests.neighbours.cell import entered
from tests.neighbours.held import Held
from tests.neighbours.kinds import Column
from tests.neighbours.neighbourhood import Neighbourhood, neighbourhood
from tests.neighbours.sickness import Sickness

WARM, MORE = 2, 8
"""Rounds after which every metric has its labels and every pool its size, and those that follow:
ten in all."""

BEFORE, SICK, REST = 15.0, 20.0, 60.0
"""Seconds of a round before the sickness, in it, and after the deletion."""

QUIET = SILENCE + FORGOTTEN_AFTER
"""Seconds within which everything is forgotten: repairs, and the events that told of them."""


async def remains(sickness: Sickness, column: Column) -> list[str]:
    """Return what is left of objects that are gone."""
    async with neighbourhood(column) as street:
        cell = _Cell(street, sickness)
        await cell.live(WARM)
        before = cell.held().by_type()
        await cell.live(MORE)
        held = cell.held()
        leaked = _grown(before, held.by_type())
        if leaked:  # or caches are between two watches: then it does not go on
            await cell.live(MORE)
            grown_again = _grown(held.by_type(), cell.held().by_type())
            leaked = {kind: number for kind, number in leaked.items() if kind in grown_again}
    found = held.texts(cell.tells_of_the_dead)
    return [*found, f"one of these for each round: {leaked}"] if leaked else found


def _grown(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    """The types of which there is one more for each round, or more."""
    return {kind: number for kind, number in (after - before).items() if number >= MORE}


class _Cell:
    def __init__(self, street: Neighbourhood, sickness: Sickness) -> None:
        self._street = street
        self._sickness = sickness
        self._uids: set[str] = set()
        self._rounds = 0

    async def live(self, rounds: int) -> None:
        """Play so many rounds, and wait until they are forgotten."""
        for _ in range(rounds):
            await self._live_through(f"sick-{self._rounds}")
            self._rounds += 1
        await asyncio.sleep(QUIET)

    def held(self) -> Held:
        return Held(self._street.operator.operator, self._street.actors)

    def tells_of_the_dead(self, text: str) -> bool:
        """Whether this is the uid of an object that there was, or has the name of one."""
        return text in self._uids or bool(re.search(r"\bsick-\d", text))

    async def _live_through(self, name: str) -> None:
        sick, sickness, column = self._street.sick, self._sickness, self._street.column
        edits = column.edit is not None
        await column.wait_for_phase()
        if sickness.late or edits:
            await sick.create(column, name)
            await asyncio.sleep(BEFORE)
        if sickness.late and edits:
            await sick.edit(column, name)
        async with entered(sickness.course(sick)):
            if not sickness.late:
                await (sick.edit if edits else sick.create)(column, name)
            await asyncio.sleep(SICK)
            self._uids |= sick.uids()
        await asyncio.sleep(sickness.lingers)
        await sick.delete(column, name)
        await asyncio.sleep(REST)
