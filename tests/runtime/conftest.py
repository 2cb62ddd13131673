"""The `world` fixture: an embedded API server for toy kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.runtime.flock import flock_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.runtime.flock import FlockWorld


@pytest.fixture
async def flocks() -> AsyncIterator[FlockWorld]:
    async with flock_world() as world:
        yield world
