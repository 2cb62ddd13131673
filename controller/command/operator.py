"""Put the operator together: which kinds, which clocks, which client."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from controller.command.embedded import wall
from controller.kube.client import Client
from controller.kube.credentials import StaticCredentials
from controller.kube.http import HttpTransport
from controller.ray.cluster import RayClusterKind
from controller.runtime.operator import Operator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from controller.runtime.settings import Settings


def build_operator(client: Client, settings: Settings) -> Operator:
    """The operator with every kind that Manta serves."""
    return Operator(
        client,
        [RayClusterKind()],
        settings,
        clock=asyncio.get_running_loop(),
        wall=wall,
        rng=random.Random(),
        registry=CollectorRegistry(),
    )


@asynccontextmanager
async def http_client(url: str, *, user_agent: str) -> AsyncGenerator[Client]:
    """A client that speaks plain HTTP to `url`, without credentials."""
    transport = HttpTransport(StaticCredentials(url), user_agent=user_agent)
    try:
        yield Client(transport, user_agent=user_agent, clock=asyncio.get_running_loop())
    finally:
        await transport.aclose()
