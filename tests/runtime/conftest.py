"""The `world` fixture: an embedded API server for toy kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.runtime.widgets import WidgetWorld, widget_world


@pytest.fixture
async def widgets() -> AsyncIterator[WidgetWorld]:
    async with widget_world() as world:
        yield world
