"""The capacities and weights of the two clusters of a RayService, in percent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FULL: Final = 100


@dataclass(frozen=True, slots=True)
class Shares:
    """The capacity that each cluster is asked for, and the traffic that it carries.

    Attributes:
        active_capacity: Serve's `target_capacity` of the active cluster.
        pending_capacity: Serve's `target_capacity` of the pending cluster.
        pending_weight: share of the traffic that is routed to the pending cluster; the rest goes
            to the active one.
    """

    active_capacity: int = FULL
    pending_capacity: int = 0
    pending_weight: int = 0

    @property
    def active_weight(self) -> int:
        """Share of the traffic that is routed to the active cluster."""
        return FULL - self.pending_weight


def safe_weight(weight: int, *, active_ready: int | None, pending_ready: int | None) -> int:
    """The weight of the pending cluster nearest to `weight` that what is ready can carry.

    A cluster that is not known to be ready keeps what it has and gets no more. If both clusters
    together cannot carry everything, each gets its part of what is ready. Nothing changes while
    nothing is ready.

    Args:
        weight: of the pending cluster.
        active_ready: share of the full size that is ready; None if it is not known.
        pending_ready: as `active_ready`.
    """
    least = weight if active_ready is None else FULL - active_ready
    most = weight if pending_ready is None else pending_ready
    if least <= most:
        return min(max(weight, least), most)
    total = FULL - least + most
    return weight if total == 0 else FULL * most // total
