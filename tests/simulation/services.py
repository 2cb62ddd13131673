"""Everything about RayServices in one life: their Serves, their referee, and what is wrong at the
end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.service import RayServiceKind
from devcluster.apiserver.store import StoredEvent
from tests.fakes.gateways import install_gateway_api, simulated_gateways
from tests.integration.harness import World
from tests.integration.rayservices import Services
from tests.simulation.route_referee import ReadyCapacity, RouteReferee
from tests.simulation.service_outcome import service_shortcomings
from tests.simulation.service_referee import ServiceReferee
from tests.simulation.troubled_rays import TroubledRays
from tests.simulation.witnessed_ray import WitnessedRay

Object = dict[str, Any]


class ServicesOfLife(TroubledRays):
    """The RayServices of a world and their Rays.

    Args:
        lost: names of clusters that the user has deleted.
        gateway: whether there is a Gateway API.
    """

    def __init__(
        self, world: World, lost: set[str], violations: list[str], *, gateway: bool
    ) -> None:
        services = Services(world, ray=WitnessedRay)
        assert isinstance(services.ray, WitnessedRay)
        super().__init__(world, services.ray)
        self._referee = ServiceReferee(violations)
        self._referee.lost = lost
        self.ray.recording = False
        self.ray.on_put = lambda place, body: self._referee.check_puts(place[0], [body])
        self._gateway = gateway
        self._ready = ReadyCapacity(self.ray, world.loop.time)
        self._routes = RouteReferee(violations, self._ready, self._referee.clusters)
        self._actors: list[DashboardActors] = []

    async def open(self) -> None:
        """Install the Gateway API, and have Gateways served."""
        if self._gateway:
            await install_gateway_api(self._world)
            self._world.background(self._serve_gateways())

    async def _serve_gateways(self) -> None:
        async with simulated_gateways(self._world):
            await asyncio.get_running_loop().create_future()

    def saw(self, event: StoredEvent) -> None:
        self._referee(event)
        super().saw(event)
        if self._gateway:
            self._ready.look()
            self._routes(event)

    def kind(self, wall: Callable[[], datetime]) -> RayServiceKind:
        actors = self.actors(wall)
        self._actors.append(actors)
        dashboards = actors.for_controller(RayServiceKind.name)
        return RayServiceKind(dashboards=dashboards, external_source=dashboards)

    def shortcomings(self, objects: Callable[[str], list[Object]]) -> list[str]:
        return service_shortcomings(
            objects(str(RAYSERVICES)), objects(str(RAYCLUSTERS)), objects("services"), self.ray
        )

    def leaks(self) -> list[str]:
        """What the actors of the last operator still have to do, though all has been done."""
        left = self._actors[-1].statistics()
        return [f"commands are left: {left}"] if left.commands else []
