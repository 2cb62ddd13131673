"""Who may write: the place of leader election.

The manager asks an `Election` before it starts what writes, and ends the process when the lead is
lost. Without one, `AlwaysLeader` leads from the start and for ever.
"""

from __future__ import annotations

import asyncio
import math
from typing import Protocol


class Fence(Protocol):
    """Stands in front of every request that changes something. Synchronous."""

    def is_leader(self) -> bool:
        """Whether such a request may be sent now (LE-14)."""
        ...

    def time_left(self) -> float:
        """Seconds that a request sent now may take, so that it ends while this process leads.

        Infinite without a lease.
        """
        ...


class Election(Fence, Protocol):
    """Decides which of several processes leads."""

    async def acquire(self) -> None:
        """Return when this process leads. May be cancelled."""
        ...

    async def lost(self) -> None:
        """Return when it does not lead any more."""
        ...

    async def release(self) -> None:
        """Give the lead away; called only when nothing here can write any more (MGR-11)."""
        ...

    async def aclose(self) -> None:
        """End everything of the election, without giving the lead away."""
        ...


class AlwaysLeader:
    """One process only: it leads."""

    def is_leader(self) -> bool:
        """Yes."""
        return True

    def time_left(self) -> float:
        """For ever."""
        return math.inf

    async def acquire(self) -> None:
        """At once."""

    async def lost(self) -> None:
        """Never."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Nobody waits for it."""

    async def aclose(self) -> None:
        """There is nothing to end."""
