"""Everything that rolling updates need in one life: their Rays, whose nodes are the pods."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from controller.ray.api import labels
from controller.ray.dashboard.actors import DashboardActors
from devcluster.apiserver.store import StoredEvent
from tests.integration.harness import World
from tests.integration.ray_nodes import RayNodesOfWorld
from tests.integration.rays import Rays
from tests.simulation.scenario import Scenario
from tests.simulation.troubled_rays import TroubledRays
from tests.simulation.witnessed_ray import WitnessedRay, course_of


class RollingOfLife(TroubledRays):
    """The Rays of the clusters of a world.

    Args:
        scenario: says what becomes of drains.
    """

    def __init__(self, world: World, scenario: Scenario) -> None:
        rays = Rays(world)
        ray = WitnessedRay(live=rays.ray.live, recording=False)
        super().__init__(world, ray)
        ray.pods = RayNodesOfWorld(world)
        ray.drain_course = course_of(scenario.drains)
        rays.ray = ray
        self._work = scenario.work
        self._actors: list[DashboardActors] = []

    def saw(self, event: StoredEvent) -> None:
        super().saw(event)
        meta = event.current.object["metadata"]
        if event.table == "pods" and labels.DRAINING_SINCE in (meta.get("annotations") or {}):
            self.ray.work.setdefault(meta["uid"], self.ray.now() + self._work)

    def for_operator(self, wall: Callable[[], datetime]) -> DashboardActors:
        """The actors of an operator that starts now and has this clock."""
        self._actors.append(self.actors(wall))
        return self._actors[-1]

    def leaks(self) -> list[str]:
        """What the actors of the last operator still are about, though nothing is replaced."""
        left = self._actors[-1].statistics()
        busy = left.probes, left.commands, left.waiting
        return [f"actors are left: {left}"] if any(busy) else []
