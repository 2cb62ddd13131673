"""The fixtures `world`, embedded by default and real for `make test-real`, and `rays` in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.harness import REAL_KUBECONFIG, embedded_world, real_world
from tests.integration.rays import Rays

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.integration.harness import World

ELSEWHERE = "embedded_only" if REAL_KUBECONFIG else "real_only"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that are meant for the other kind of API server."""
    left_out = [item for item in items if item.get_closest_marker(ELSEWHERE)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


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
