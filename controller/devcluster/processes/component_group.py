"""A group of components."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.devcluster.nodes.components.component_context import Component


class ComponentGroup:
    """Components that start in order and then run at the same time."""

    def __init__(self, *components: Component) -> None:
        self._components = components

    async def start(self) -> None:
        """Start them, one after the other."""
        for component in self._components:
            await component.start()

    async def run(self) -> None:
        """Run all until cancelled."""
        async with asyncio.TaskGroup() as group:
            for component in self._components:
                group.create_task(component.run())
