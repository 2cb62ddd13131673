"""No kind's objects delay others of it: two hundred whose creates hang, and one that is new."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kaito.api.definitions import kaito_definitions
from controller.kube.resources import Resource
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import Rule
from tests.integration.harness import World, embedded_world, install_crds
from tests.integration.ray_nodes import RayNodesOfWorld
from tests.integration.rays import Rays
from tests.integration.rayservices import Services
from tests.integration.test_all_kinds import start
from tests.integration.test_failing_keys import CREATE, GATES
from tests.integration.test_fairness import HANGS, TIMED_OUT
from tests.integration.workspaces import Workspaces, provisioned
from tests.neighbours.kinds import KINDS, Column

pytestmark = pytest.mark.slow

SICK = 200
COLUMNS = {str(each): each for each in KINDS if each.resource != RAYCLUSTERS}


async def seconds_until_well(column: Column, *, sick: int) -> float:
    """Seconds until a new object is well, when nothing can be created for `sick` others."""
    async with embedded_world() as world:
        rays = await prepared(world)
        for number in range(sick):
            await create(world, column, f"sick-{number}")
        operator = start(rays, GATES)
        hangs = Rule(HANGS, column.creates, CREATE, is_sick)
        operator.transport.rules = [hangs, Rule(TIMED_OUT, column.creates, CREATE, is_sick)]
        await world.settle(120)
        assert hangs.seen >= sick
        began = world.loop.time()
        await create(world, column, "healthy")
        await world.eventually(lambda: is_well(world, column), pause=0.1, seconds=300)
        return world.loop.time() - began


async def prepared(world: World) -> Rays:
    """All kinds are served, with whatever stands in for Ray and the cloud."""
    rays = Rays(world)
    await rays.open()
    rays.ray.nodes, rays.ray.pods = Services(world).nodes, RayNodesOfWorld(world)
    await install_crds(world, *kaito_definitions())
    spaces = Workspaces(world)
    await spaces.install()
    world.background(provisioned(spaces))
    return rays


async def create(world: World, column: Column, name: str) -> None:
    body = column.manifest(name, world.wall())
    await world.user.create(column.resource, world.namespace, body)


def is_sick(name: str) -> bool:
    return name.startswith("sick")


def is_well(world: World, column: Column) -> bool:
    assert world.server is not None
    tables = world.server.store.table

    def objects(resource: Resource[Any]) -> list[dict[str, Any]]:
        return [each.object for each in tables(str(resource)).items.values()]

    (healthy,) = [
        each for each in objects(column.resource) if each["metadata"]["name"] == "healthy"
    ]
    return column.is_well(healthy, objects)


@pytest.mark.embedded_only
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "kind",
    [each if each == "RayJob" else pytest.param(each, marks=pytest.mark.rare) for each in COLUMNS],
)
async def test_two_hundred_objects_whose_creates_hang_delay_no_new_one(kind: str):
    alone = await seconds_until_well(COLUMNS[kind], sick=0)
    assert await seconds_until_well(COLUMNS[kind], sick=SICK) <= 2 * alone + 2
