"""The fixtures `world`, embedded by default and real for `make test-real`, and `rays` in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.definitions import drop_rules, restore_rules
from tests.integration.harness import REAL_KUBECONFIG, World, embedded_world, real_world
from tests.integration.rays import Rays


@pytest.fixture
async def world() -> AsyncIterator[World]:
    opened = real_world(REAL_KUBECONFIG) if REAL_KUBECONFIG else embedded_world()
    async with opened as world:
        yield world


@pytest.fixture
async def rays(world: World) -> Rays:
    """The world with a simulated dashboard for every head."""
    rays = Rays(world)
    await rays.open()
    return rays


@pytest.fixture
async def lax(world: World) -> AsyncIterator[World]:
    """The world with definitions that have no rules; a real server serves the next test, too."""
    await drop_rules(world)
    yield world
    for operator in world.operators:
        await operator.kill()
    await restore_rules(world)
