"""The fixtures `world`, embedded by default and real for `make test-real`, and `rays` in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

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
