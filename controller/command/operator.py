"""Put the operator together: which kinds, which clocks, which client."""

from __future__ import annotations

import asyncio
import gc
import os
import random
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry, disable_created_metrics

from controller.command.clock import wall
from controller.kube.client import Client
from controller.kube.http import HttpTransport
from controller.kube.metrics import RestClientMetrics
from controller.kube.objects import KubeObject
from controller.ray.api import RAYCLUSTERS, FeatureGates
from controller.ray.cluster import ClusterCollector, ClusterSettings, RayClusterKind
from controller.runtime.operator import Operator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from controller.kube.credentials import Credentials
    from controller.kube.resources import Resource
    from controller.runtime.settings import Settings

T = TypeVar("T", bound=KubeObject)


@asynccontextmanager
async def operator_for(
    credentials: Credentials,
    settings: Settings,
    *,
    user_agent: str,
    feature_gates: FeatureGates | None = None,
) -> AsyncGenerator[Operator]:
    """The operator with every kind that Manta serves; its connections end with the context."""
    loop = asyncio.get_running_loop()
    disable_created_metrics()  # series that upstream does not have
    registry = CollectorRegistry()
    transport = HttpTransport(credentials, user_agent=user_agent)
    client = Client(
        transport,
        user_agent=user_agent,
        clock=loop,
        concurrency=settings.client_concurrency,
        metrics=RestClientMetrics(registry).of(credentials.endpoint.host),
    )
    operator = Operator(
        client,
        [RayClusterKind(cluster_settings(feature_gates))],
        settings,
        clock=loop,
        wall=wall,
        rng=random.Random(),
        registry=registry,
        on_synced=_freeze,
    )
    registry.register(ClusterCollector(lambda: _cached(operator, RAYCLUSTERS)))
    try:
        yield operator
    finally:
        await transport.aclose()


def cluster_settings(feature_gates: FeatureGates | None = None) -> ClusterSettings:
    """What this process's environment and command line decide for all RayClusters."""
    settings = ClusterSettings.from_environment(os.environ)
    return replace(settings, feature_gates=feature_gates or FeatureGates())


def _freeze() -> None:
    """Leave the filled caches out of all later garbage collections, which would pause the loop."""
    gc.collect()
    gc.freeze()


def _cached(operator: Operator, resource: Resource[T]) -> Iterator[T]:
    """All cached objects of one resource, of all watched namespaces."""
    for cache in operator.caches.caches:
        if cache.selection.resource is resource:
            yield from cache.informer.lister.list()
