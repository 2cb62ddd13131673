"""Where getters sleep.

A wake-up is only a hint: "look again". It carries no key. This is what makes cancellation safe
(WQ-9), and worth a closer look, because the obvious design is wrong.

The obvious design hands the key to the sleeper with the wake-up. Between the moment when the
future gets its result and the moment when the sleeping task runs there is at least one turn of
the event loop; a task cancelled in between would take the key to its grave. So the sleeper takes
the key itself, in the same synchronous step in which it returns.

One hole is left. If the cancelled sleeper was the one that had been told to look, then nobody
looks, although a key is there and others sleep. So it passes the hint on before it goes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict


class ParkingLot:
    """Tasks that sleep until told to look again, in order of arrival."""

    def __init__(self) -> None:
        self._parked: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    def __len__(self) -> int:
        """Return how many tasks sleep and have not been told to look."""
        return len(self._parked)

    async def park(self) -> None:
        """Sleep until woken. Being woken promises nothing: look, and park again."""
        hint: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked[hint] = None
        try:
            await hint
        except BaseException:
            self._parked.pop(hint, None)
            if hint.done() and not hint.cancelled():
                self.unpark_one()
            raise

    def unpark_one(self) -> None:
        """Wake the task that has slept longest, if any sleeps."""
        while self._parked:
            hint, _ = self._parked.popitem(last=False)
            if not hint.done():
                hint.set_result(None)
                return

    def unpark_all(self) -> None:
        """Wake every task that sleeps now."""
        for _ in range(len(self._parked)):
            self.unpark_one()
