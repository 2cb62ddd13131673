"""The dependencies and the interface of node components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from controller.devcluster.nodes.control import ControlLoop

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from controller.devcluster.nodes.caches import Caches
    from controller.devcluster.nodes.control import K
    from controller.devcluster.nodes.settings import NodeSettings
    from controller.kube.client import Client
    from informers import Clock


@dataclass(frozen=True, slots=True)
class ComponentContext:
    """Shared by all components.

    Attributes:
        client: access to the API server.
        caches: the informers.
        settings: delays and sizes.
        clock: what timers run by.
        wall: the time in UTC, for timestamps.
        rng: for the jitter of back-off.
    """

    client: Client
    caches: Caches
    settings: NodeSettings
    clock: Clock
    wall: Callable[[], datetime]
    rng: random.Random

    def control_loop(
        self, name: str, sync: Callable[[K], Awaitable[float | None]]
    ) -> ControlLoop[K]:
        """A loop around `sync` with as many workers as the settings say."""
        return ControlLoop(
            name, sync, clock=self.clock, rng=self.rng, workers=self.settings.workers
        )


class Component(Protocol):
    """A component of the cluster."""

    async def start(self) -> None:
        """Start the component, before the caches are filled."""
        ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...
