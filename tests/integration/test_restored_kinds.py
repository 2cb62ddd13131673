"""A database that is restored to an earlier state, for objects of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from controller.kube.resources import Resource
from controller.ray.api import RAYCLUSTERS
from tests.faults.restored import Backup
from tests.integration.harness import World
from tests.integration.test_all_kinds import start
from tests.integration.test_failing_keys import GATES
from tests.integration.test_fairness_of_kinds import prepared
from tests.integration.test_restored import ended
from tests.neighbours.kinds import KINDS, Column

pytestmark = pytest.mark.embedded_only

COLUMNS = {str(each): each for each in KINDS if each.resource != RAYCLUSTERS}


@dataclass(frozen=True)
class Objects:
    """The objects of one kind, as their user sees them."""

    world: World
    column: Column

    async def create(self, name: str) -> None:
        body = self.column.manifest(name, self.world.wall())
        await self.world.user.create(self.column.resource, self.world.namespace, body)

    def stored(self, resource: Resource[Any]) -> list[dict[str, Any]]:
        assert self.world.server is not None
        return [each.object for each in self.world.server.store.table(str(resource)).items.values()]

    def names(self) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.stored(self.column.resource))

    def are_well(self, *names: str) -> bool:
        found = [o for o in self.stored(self.column.resource) if o["metadata"]["name"] in names]
        return len(found) == len(names) and all(self.column.is_well(o, self.stored) for o in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        each if each == "RayService" else pytest.param(each, marks=pytest.mark.rare)
        for each in COLUMNS
    ],
)
async def test_objects_of_each_kind_are_followed_into_an_earlier_state(world: World, kind: str):
    assert world.server is not None
    objects = Objects(world, COLUMNS[kind])
    rays = await prepared(world)
    operator = start(rays, GATES)
    await objects.create("before")
    await world.eventually(lambda: objects.are_well("before"), seconds=300, pause=1)
    await world.settle(120)
    backup = Backup(world.server)
    await objects.create("after")
    await world.eventually(lambda: objects.are_well("before", "after"), seconds=300, pause=1)
    await world.settle(120)

    backup.restore()
    assert objects.names() == ["before"]
    await ended(world, operator)
    start(rays, GATES)
    await world.eventually(lambda: objects.are_well("before"), seconds=60, pause=1)
    await objects.create("next")
    await world.eventually(lambda: objects.are_well("before", "next"), seconds=300, pause=1)
    assert objects.names() == ["before", "next"]
