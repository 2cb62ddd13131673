"""Runs the node components: all of them, or those that an API server lacks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from controller.kube.client import Client
from devcluster.nodes.components import (
    Component,
    ComponentContext,
    NodeCaches,
    NodeSettings,
)
from devcluster.nodes.endpointslices import EndpointSlices
from devcluster.nodes.garbage import (
    GarbageCollector,
    NamespaceLifecycle,
)
from devcluster.nodes.jobs import JobController
from devcluster.nodes.simulated_kubelet import SimulatedKubelet
from informers import Clock

_MAKERS: Mapping[str, Callable[[ComponentContext], Component]] = {
    "kubelet": SimulatedKubelet,
    "gc": GarbageCollector,
    "jobs": JobController,
    "endpointslices": EndpointSlices,
    "namespaces": NamespaceLifecycle,
}

COMPONENTS = frozenset(_MAKERS)
"""All components. A real API server with its controller manager needs only `kubelet`."""


@asynccontextmanager
async def run_nodes(
    client: Client,
    *,
    clock: Clock,
    wall: Callable[[], datetime],
    rng: random.Random,
    settings: NodeSettings | None = None,
    components: AbstractSet[str] = COMPONENTS,
    kubelet: Callable[[ComponentContext], Component] = SimulatedKubelet,
    others: Iterable[Callable[[ComponentContext], Component]] = (),
) -> AsyncGenerator[None]:
    """Run `components` until the context exits; it is entered when all caches are filled.

    Raises:
        ValueError: there is no such component.
        controller.kube.errors.KubeError: a component could not start.
    """
    unknown = components - COMPONENTS
    if unknown:
        raise ValueError(f"no such component: {', '.join(sorted(unknown))}")
    try:
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[None]] = []

            def spawn(work: Coroutine[Any, Any, None]) -> None:
                tasks.append(group.create_task(work))

            caches = NodeCaches(client, clock=clock, rng=rng, spawn=spawn)
            context = ComponentContext(client, caches, settings or NodeSettings(), clock, wall, rng)
            try:
                makers = {**_MAKERS, "kubelet": kubelet}
                chosen = [makers[name] for name in sorted(components)]
                made = [make(context) for make in (*chosen, *others)]
                for component in made:
                    await component.start()
                caches.start()
                await caches.wait_for_sync()
                for component in made:
                    spawn(component.run())
                yield
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as failures:
        causes = failures.exceptions
        if len(causes) == 1:
            raise causes[0] from causes[0].__cause__
        raise
