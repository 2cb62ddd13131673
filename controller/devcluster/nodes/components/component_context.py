"""The dependencies and the interface of node components."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol

from controller.devcluster.nodes.components.control import ControlLoop, K

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from controller.devcluster.nodes.components.caches import NodeCaches
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
        clock: clock of timers.
        wall: returns the time in UTC, for timestamps.
        rng: source of the jitter of back-off.
    """

    client: Client
    caches: NodeCaches
    settings: NodeSettings
    clock: Clock
    wall: Callable[[], datetime]
    rng: random.Random

    def control_loop(
        self, name: str, sync: Callable[[K], Awaitable[float | None]]
    ) -> ControlLoop[K]:
        """Return a loop around `sync` with as many workers as the settings demand."""
        return ControlLoop(
            name, sync, clock=self.clock, rng=self.rng, workers=self.settings.workers
        )


class LoopComponent(ABC, Generic[K]):
    """A component that is one control loop.

    Args:
        name: name of the component, for the log.
        context: dependencies of the component.
    """

    def __init__(self, name: str, context: ComponentContext) -> None:
        self._loop = context.control_loop(name, self._sync)

    @abstractmethod
    async def _sync(self, key: K, /) -> float | None:
        """Reconcile one object; see `ControlLoop`."""

    async def start(self) -> None:
        """Do nothing."""

    async def run(self) -> None:
        """Work until cancelled."""
        await self._loop.run()


class Component(Protocol):
    """A component of the cluster."""

    async def start(self) -> None:
        """Start the component, before the caches are filled."""
        ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...
