"""A referee for RayServices that lose no replica: it holds them to more than the others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from controller.ray.api.rayservice import RAYSERVICES
from devcluster.apiserver.store import StoredEvent
from tests.simulation.service_referee import ROLES, ServiceHistory, ServiceReferee


class SteadyReferee(ServiceReferee):
    """Checks what only holds while all replicas stay: else requests go where they are answered.

    I2: no weight exceeds the capacity of its cluster. I3: when a weight grows, so much of its
    cluster is ready. I8: one direction takes `2 * ceil(100 / surge) + ceil(100 / step)` moves.

    Args:
        ready: gives the percentage of a cluster's full size that runs.
    """

    def __init__(self, ready: Callable[[str], float]) -> None:
        super().__init__([])
        self._ready = ready
        self._moves = Counter[tuple[int, bool]]()  # by generation and direction

    def __call__(self, event: StoredEvent) -> None:
        super().__call__(event)
        if event.table == str(RAYSERVICES) and event.previous is not None:
            self._compare(
                ServiceHistory(event.previous.object), ServiceHistory(event.current.object)
            )

    def _compare(self, before: ServiceHistory, now: ServiceHistory) -> None:
        for role in ROLES:
            name, capacity, weight = shares(now, role)
            if weight is None or capacity is None:
                continue
            if weight > capacity:
                self._blame(f"I2: {weight} % of the requests for {name} with {capacity} %")
            former = before.percent(role, "trafficRoutedPercent")
            if former is not None and weight > former and weight > self._ready(name):
                self._blame(f"I3: {weight} % for {name}, where {self._ready(name)} % are ready")
        if self._has_moved(before, now):
            self._count(now)

    @staticmethod
    def _has_moved(before: ServiceHistory, now: ServiceHistory) -> bool:
        """Whether capacity or requests went from one to the other of the same two clusters."""
        former, present = ([shares(each, role) for role in ROLES] for each in (before, now))
        names = [[name for name, *_ in each] for each in (former, present)]
        return all(names[1]) and names[0] == names[1] and former != present

    def _count(self, now: ServiceHistory) -> None:
        options = now.object["spec"]["upgradeStrategy"]["clusterUpgradeOptions"]
        most = 2 * math.ceil(100 / now.surge) + math.ceil(100 / options["stepSizePercent"])
        direction = now.object["metadata"]["generation"], now.is_true("RollbackInProgress")
        self._moves[direction] += 1
        if self._moves[direction] > most:
            self._blame(f"I8: more than {most} moves in one direction")


def shares(seen: ServiceHistory, role: str) -> tuple[str, int | None, int | None]:
    """Name, capacity and weight of the cluster in this role."""
    fields = (seen.percent(role, field) for field in ("targetCapacity", "trafficRoutedPercent"))
    capacity, weight = fields
    return seen.name(role), capacity, weight
