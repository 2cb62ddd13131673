"""The fixture `world`, embedded by default and real for `make test-real`, and who uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.definitions import drop_rules, restore_rules
from tests.integration.fleets import Fleets
from tests.integration.harness import REAL_KUBECONFIG, World, embedded_world, real_world
from tests.integration.rays import Rays
from tests.integration.rayservices import Services
from tests.integration.workspaces import Workspaces, opened


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with real_world(REAL_KUBECONFIG) if REAL_KUBECONFIG else embedded_world() as world:
        yield world


@pytest.fixture
async def rays(world: World) -> Rays:
    """The world with a simulated dashboard for every head."""
    rays = Rays(world)
    await rays.open()
    return rays


@pytest.fixture
async def services(world: World) -> Services:
    return Services(world)


@pytest.fixture
async def fleets(world: World) -> Fleets:
    return Fleets(world)


@pytest.fixture
async def spaces(world: World) -> AsyncIterator[Workspaces]:
    async with opened(world) as spaces:
        yield spaces


@pytest.fixture
async def lax(world: World) -> AsyncIterator[World]:
    """The world with definitions that have no rules; a real server serves the next test, too."""
    await drop_rules(world)
    yield world
    for operator in world.operators:
        await operator.kill()
    await restore_rules(world)
