"""The `world` fixture: an embedded API server for toy kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.runtime.widgets import widget_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.runtime.widgets import WidgetWorld


@pytest.fixture
async def widgets() -> AsyncIterator[WidgetWorld]:
    async with widget_world() as world:
        yield world
