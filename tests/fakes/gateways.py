"""A gateway without sockets: it reports as real ones do, and shows what it would route by."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from controller.kube.errors import AlreadyExists, NotFound, PathNotFound
from controller.kube.objects import Gateway, HTTPRoute
from controller.kube.resources import CRDS
from controller.testing.cluster import Cluster
from devcluster.gateway import (
    CONTROLLER_NAME,
    GATEWAY_CLASSES,
    GatewayController,
    Listening,
    gateway_api_definitions,
)
from devcluster.nodes.components import ComponentContext, NodeCaches, NodeSettings

CLASS = "example"


@dataclass
class SimulatedListeners:
    """Listens at an address that does not exist.

    Attributes:
        delay: seconds until a change is in force.
        weights: those of the first rule of each route that is in force, by route and Service.
    """

    problem: str = ""
    delay: float = 0.0
    weights: dict[str, dict[str, int]] = field(default_factory=dict)

    async def apply(
        self, gateways: Mapping[str, tuple[Gateway, Sequence[HTTPRoute]]]
    ) -> dict[str, Listening]:
        await asyncio.sleep(self.delay)
        if self.problem:
            return {key: Listening(problem=self.problem) for key in gateways}
        self.weights = {
            route.metadata.name: {
                each["name"]: each["weight"] for each in route.spec.rules[0].get("backendRefs", ())
            }
            for _, routes in gateways.values()
            for route in routes
        }
        return {key: Listening(("10.9.9.9",)) for key in gateways}

    async def aclose(self) -> None:
        """Nothing listens."""


async def install_gateway_api(world: Cluster) -> None:
    """Install the definitions and a class of ours."""
    user = world.client("gateway-admin")
    for definition in gateway_api_definitions():
        try:
            await user.create(CRDS, "", definition)
        except AlreadyExists:
            continue
    body: dict[str, Any] = {
        "apiVersion": GATEWAY_CLASSES.api_version,
        "kind": "GatewayClass",
        "metadata": {"name": CLASS},
        "spec": {"controllerName": CONTROLLER_NAME},
    }
    await world.eventually(lambda: _create_class(user, body))


async def remove_gateway_api(world: Cluster) -> None:
    """Remove the definitions, with all objects; does nothing if there are none."""
    user = world.client("gateway-admin")
    for definition in gateway_api_definitions():
        with suppress(NotFound):
            await user.delete(CRDS, "", definition["metadata"]["name"])
    await world.eventually(lambda: _is_removed(user))


async def _is_removed(user: Any) -> bool:
    found = await user.list(CRDS, "")
    names = {each["metadata"]["name"] for each in gateway_api_definitions()}
    return not names & {each.metadata.name for each in found.items}


async def _create_class(user: Any, body: dict[str, Any]) -> bool:
    try:
        await user.create(GATEWAY_CLASSES, "", body)
    except AlreadyExists:
        return True
    except (NotFound, PathNotFound):
        return False  # the definition is not served yet
    return True


@asynccontextmanager
async def simulated_gateways(
    world: Cluster, listeners: SimulatedListeners | None = None
) -> AsyncIterator[SimulatedListeners]:
    """A controller that accepts Gateways of `CLASS`, as long as the block runs."""
    made = listeners or SimulatedListeners()
    tasks: list[asyncio.Task[None]] = []

    def spawn(work: Coroutine[Any, Any, None]) -> None:
        tasks.append(asyncio.create_task(work))

    client, rng = world.client("gateways"), random.Random(3)
    caches = NodeCaches(client, clock=world.loop, rng=rng, spawn=spawn)
    settings = NodeSettings(workers=1)
    context = ComponentContext(client, caches, settings, world.loop, world.wall, rng)
    controller = GatewayController(context, made)
    try:
        caches.start()
        await caches.wait_for_sync()
        spawn(controller.run())
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
