"""Who may write: the place of leader election.

The manager asks an `Election` before it starts what writes, and ends the process when the lead is
lost. Without one, `AlwaysLeader` leads from the start and for ever.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Election(Protocol):
    """Decides which of several processes leads."""

    def is_leader(self) -> bool:
        """Whether this process may write now. Synchronous: a fence in front of each write."""
        ...

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

    async def acquire(self) -> None:
        """At once."""

    async def lost(self) -> None:
        """Never."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Nobody waits for it."""

    async def aclose(self) -> None:
        """There is nothing to end."""
