"""The Rays of one kind in one life: their dashboards, and what goes wrong with them."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

from controller.ray.dashboard.actors import DashboardActors
from devcluster.apiserver.store import StoredEvent
from tests.integration.harness import World
from tests.simulation.scenario import LoseRayJobs, LoseServe, RayFault
from tests.simulation.witnessed_ray import WitnessedRay

Object = dict[str, Any]


class TroubledRays:
    """Rays that lose what they know, and dashboards that misbehave for a while."""

    def __init__(self, world: World, ray: WitnessedRay) -> None:
        self._world = world
        self.ray = ray
        self._faults: list[RayFault] = []

    def act(self, action: RayFault | LoseRayJobs | LoseServe) -> None:
        """Let something go wrong in all Rays."""
        match action:
            case LoseRayJobs():
                self.ray.forget_jobs()
            case LoseServe():
                self.ray.forget_serve()
            case _:
                self._faults.append(action)
                self._misbehave()
                self._world.loop.call_later(action.lasts, self._end, action)

    def make_peace(self) -> None:
        self._faults.clear()
        self._misbehave()

    def saw(self, event: StoredEvent) -> None:
        if event.table == "pods" and _is_head(event.current.object):
            self.ray.saw(event)

    def actors(self, wall: Callable[[], datetime]) -> DashboardActors:
        rng = random.Random(self._world.rng.random())
        return DashboardActors(self.ray.connect, clock=self._world.loop, wall=wall, rng=rng)

    def _end(self, fault: RayFault) -> None:
        if fault in self._faults:
            self._faults.remove(fault)
            self._misbehave()

    def _misbehave(self) -> None:
        self.ray.misbehave([fault.kind for fault in self._faults])


def _is_head(pod: Object) -> bool:
    return (pod["metadata"].get("labels") or {}).get("ray.io/node-type") == "head"
