"""An operator that starts after the clock has gone back: what is stored lies in the future."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from controller.ray.api.labels import INITIALIZING_TIMEOUT
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.fleets import NEW, Fleets
from tests.integration.harness import World
from tests.integration.rays import Rays, forever
from tests.integration.rayservices import Services, service_manifest
from tests.integration.rolling import RollingWorld, rolling_manifest

pytestmark = pytest.mark.embedded_only

AHEAD = timedelta(hours=5)
LIMIT = 300
NO_PODS = Rule(ErrorResponse(403, "Forbidden", "no pods today"), "pods", frozenset({"create"}))


class Case:
    """An object with a time limit.

    Attributes:
        create: creates the object, and lets its time begin.
        is_over: whether the operator says that the time is up.
    """

    start: Callable[..., Any]
    create: Callable[[], Awaitable[None]]
    is_over: Callable[[], Awaitable[bool]]


class JobCase(Case):
    def __init__(self, world: World) -> None:
        self.rays = Rays(world)
        self.rays.ray.course = lambda _: forever()
        self.start = self.rays.start_operator

    async def create(self) -> None:
        await self.rays.open()
        await self.rays.create("job", activeDeadlineSeconds=LIMIT)
        await self.rays.reaches("Running", "job")

    async def is_over(self) -> bool:
        return (await self.rays.job("job")).status.get("reason") == "DeadlineExceeded"


class ServiceCase(Case):
    def __init__(self, world: World) -> None:
        self.services = Services(world)
        self.start = self.services.start_operator
        self.world = world

    async def create(self) -> None:
        body = service_manifest("svc")
        body["metadata"]["annotations"] = {INITIALIZING_TIMEOUT: str(LIMIT)}
        self.world.operators[-1].transport.rules = [NO_PODS]
        await self.services.create(body)

    async def is_over(self) -> bool:
        conditions = (await self.services.status()).get("conditions", ())
        return any(each["reason"] == "InitializingTimeout" for each in conditions)


class FleetCase(Case):
    def __init__(self, world: World) -> None:
        self.fleets = Fleets(world)
        self.start = self.fleets.start_operator
        self.world = world

    async def create(self) -> None:
        await self.fleets.create("fleet", 2, progressDeadlineSeconds=LIMIT)
        await self.fleets.completes(self.fleets_image, 2)
        self.world.operators[-1].transport.rules = [NO_PODS]
        await self.fleets.use(NEW)

    fleets_image = "rayproject/ray:2.52.0"

    async def is_over(self) -> bool:
        return (await self.fleets.condition("Upgrading"))[1] == "ProgressDeadlineExceeded"


class RollingCase(Case):
    def __init__(self, world: World) -> None:
        manifest = rolling_manifest(2, progressDeadlineSeconds=LIMIT)
        self.rolling = RollingWorld(world, manifest, refereed=False)
        self.start = self.rolling.start_operator
        self.world = world

    async def create(self) -> None:
        await self.rolling.create()
        self.world.operators[-1].transport.rules = [NO_PODS]
        await self.rolling.edit("new")

    async def is_over(self) -> bool:
        conditions = (await self.world.cluster()).status["conditions"]
        return any(each["reason"] == "ProgressDeadlineExceeded" for each in conditions)


CASES = {"job": JobCase, "service": ServiceCase, "fleet": FleetCase, "cluster": RollingCase}


@pytest.mark.parametrize("kind", CASES)
async def test_a_time_limit_begins_at_the_start_if_a_clock_that_was_ahead_has_begun_it(
    world: World, kind: str
):
    case = CASES[kind](world)

    def ahead() -> datetime:
        return world.wall() + AHEAD

    operator = case.start(wall=ahead)
    await case.create()
    await world.settle(30)
    assert not await case.is_over()
    await operator.kill()

    case.start(rules=[] if kind == "job" else [NO_PODS])
    await world.settle(LIMIT - 10)
    assert not await case.is_over()
    await world.settle(30)
    assert await case.is_over()
