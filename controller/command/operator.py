"""Put the operator together: which kinds, which clocks, which client."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry

from controller.command.embedded import wall
from controller.kube.client import Client
from controller.kube.credentials import StaticCredentials
from controller.kube.http import HttpTransport
from controller.kube.objects import KubeObject
from controller.ray.api import RAYCLUSTERS
from controller.ray.cluster import ClusterCollector, ClusterSettings, RayClusterKind
from controller.runtime.operator import Operator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from controller.kube.resources import Resource
    from controller.runtime.settings import Settings

T = TypeVar("T", bound=KubeObject)


def build_operator(client: Client, settings: Settings) -> Operator:
    """The operator with every kind that Manta serves."""
    registry = CollectorRegistry()
    operator = Operator(
        client,
        [RayClusterKind(ClusterSettings.from_environment(os.environ))],
        settings,
        clock=asyncio.get_running_loop(),
        wall=wall,
        rng=random.Random(),
        registry=registry,
    )
    registry.register(ClusterCollector(lambda: _cached(operator, RAYCLUSTERS)))
    return operator


def _cached(operator: Operator, resource: Resource[T]) -> Iterator[T]:
    """All cached objects of one resource, of all watched namespaces."""
    for cache in operator.caches.caches:
        if cache.selection.resource is resource:
            yield from cache.informer.lister.list()


@asynccontextmanager
async def http_client(url: str, *, user_agent: str) -> AsyncGenerator[Client]:
    """A client that speaks plain HTTP to `url`, without credentials."""
    transport = HttpTransport(StaticCredentials(url), user_agent=user_agent)
    try:
        yield Client(transport, user_agent=user_agent, clock=asyncio.get_running_loop())
    finally:
        await transport.aclose()
