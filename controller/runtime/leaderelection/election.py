"""The interface of leader election.

The manager acquires an `Election` before it starts anything that writes, and stops the process when
leadership is lost. Without an election, `AlwaysLeader` leads from start to end.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ElectionSnapshot:
    """The present state of an election, for the debug page.

    Attributes:
        leads: whether this process may write now.
        time_left: seconds for which that is certain; infinite without a lease.
        holder: identity of the last holder seen, empty for none.
        problem: why the last attempt failed, empty if it did not.
    """

    leads: bool
    time_left: float
    holder: str = ""
    problem: str = ""


class Fence(Protocol):
    """Checked before every mutating request. Synchronous."""

    def is_leader(self) -> bool:
        """Return whether such a request may be sent now (LE-14)."""
        ...

    def time_left(self) -> float:
        """Return the seconds that a request sent now may take, so that it ends while leading.

        Infinite without a lease.
        """
        ...


class Election(Fence, Protocol):
    """Decides which of several processes leads."""

    async def acquire(self) -> None:
        """Return when this process leads. May be cancelled."""
        ...

    async def lost(self) -> None:
        """Return when this process no longer leads."""
        ...

    async def release(self) -> None:
        """Release the lease; called only when nothing here can write any more (MGR-11)."""
        ...

    async def aclose(self) -> None:
        """Stop the election without releasing the lease."""
        ...


class AlwaysLeader:
    """The election of a process that runs alone: it always leads."""

    def is_leader(self) -> bool:
        """Return True."""
        return True

    def time_left(self) -> float:
        """Return infinity."""
        return math.inf

    def snapshot(self) -> ElectionSnapshot:
        """Return the election as it is now."""
        return ElectionSnapshot(leads=True, time_left=math.inf)

    async def acquire(self) -> None:
        """Return at once."""

    async def lost(self) -> None:
        """Never return."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Do nothing: there is no lease."""

    async def aclose(self) -> None:
        """Do nothing."""
