"""Waiting for a state that a view shows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Changes:
    """Wakes tasks that wait for a state of a view."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Wake the tasks: the state has changed."""
        self._changed.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until `reached` is true. The caller sets the time limit."""
        while not reached():
            self._changed.clear()
            await self._changed.wait()
