"""The `world` fixture: embedded by default, real when `make test-real` says where one is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.harness import REAL_KUBECONFIG, embedded_world, real_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.integration.harness import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    opened = real_world(REAL_KUBECONFIG) if REAL_KUBECONFIG else embedded_world()
    async with opened as world:
        yield world
