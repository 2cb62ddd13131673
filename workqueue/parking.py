"""Parks the tasks that wait for a key.

A wake-up is only a hint to look again; it carries no key. This makes cancellation safe. The
obvious design is wrong.

The obvious design hands the key to the sleeper with the wake-up. Between the moment when the
future gets its result and the moment when the sleeping task runs there is at least one turn of
the event loop; if the task is cancelled in between, the key is lost. So the sleeper takes the key
itself, in the same synchronous step in which it returns.

One gap remains. If the cancelled sleeper had already been woken, no other task looks, although a
key is available and others sleep. So the cancelled task passes the hint on.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict


class ParkingLot:
    """Tasks that sleep until they are woken to look again, in order of arrival."""

    def __init__(self) -> None:
        self._parked: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of tasks that sleep and have not been woken."""
        return len(self._parked)

    async def park(self) -> None:
        """Sleep until woken. A wake-up guarantees no key: look again, and park again if needed."""
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
        """Wake the task that has slept longest, if any."""
        while self._parked:
            hint, _ = self._parked.popitem(last=False)
            if not hint.done():
                hint.set_result(None)
                return

    def unpark_all(self) -> None:
        """Wake all sleeping tasks."""
        for _ in range(len(self._parked)):
            self.unpark_one()
