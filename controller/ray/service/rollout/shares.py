"""The capacities and weights of the two clusters of a RayService, in percent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FULL: Final = 100


@dataclass(frozen=True, slots=True)
class Shares:
    """The capacity requested of each cluster, and the traffic that it carries.

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
    """Return the pending cluster's weight nearest to `weight` that ready replicas can carry.

    A cluster of unknown readiness keeps its weight and gets no more. If both clusters together
    cannot carry everything, each gets a weight in proportion to its ready part. Nothing changes
    while nothing is ready.

    Args:
        weight: weight of the pending cluster.
        active_ready: ready percentage of the full size; None if unknown.
        pending_ready: the same for the pending cluster.
    """
    least = weight if active_ready is None else FULL - active_ready
    most = weight if pending_ready is None else pending_ready
    if least <= most:
        return min(max(weight, least), most)
    total = FULL - least + most
    return weight if total == 0 else FULL * most // total
