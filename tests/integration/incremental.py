"""Incremental upgrades on a world: a client that follows the route, and a referee."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from tests.fakes.gateways import CLASS, SimulatedListeners
from tests.integration.harness import cluster_of
from tests.integration.rayservices import Services, serve_config, service_manifest, with_image

ROUTE = "svc-httproute"
SURGE = STEP = 20
INTERVAL = 10


def incremental_manifest(*, replicas: int = 2, **options: Any) -> dict[str, Any]:
    chosen = {
        "gatewayClassName": CLASS,
        "maxSurgePercent": SURGE,
        "stepSizePercent": STEP,
        "intervalSeconds": INTERVAL,
    } | options
    manifest = service_manifest(
        serveConfigV2=serve_config(replicas=replicas),
        rayClusterDeletionDelaySeconds=30,
        upgradeStrategy={
            "type": "NewClusterWithIncrementalUpgrade",
            "clusterUpgradeOptions": chosen,
        },
    )
    manifest["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"] = True
    return manifest


def with_resources(manifest: dict[str, Any], *, replicas: int, cpus: str = "3") -> dict[str, Any]:
    """The seed's edit: more replicas and, for them, larger workers."""
    edited = copy.deepcopy(manifest)
    group = edited["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]
    container = group["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"cpu": cpus}, "requests": {"cpu": cpus}}
    edited["spec"]["serveConfigV2"] = serve_config("hello", replicas=replicas)
    return edited


def third(manifest: dict[str, Any]) -> dict[str, Any]:
    """Another specification, of cluster and config."""
    edited = with_image(manifest, "rayproject/ray:2.99.0")
    edited["spec"]["serveConfigV2"] = serve_config("third", replicas=3)
    return edited


class Shares(Struct, frozen=True):
    active: int
    pending: int
    weight: int


@dataclass
class Upgrades:
    """What a client and a referee have seen of the upgrades of one RayService.

    Attributes:
        listeners: what the gateway routes by.
        failures: requests that nobody answered, and broken invariants.
        shares: the different shares, in order.
        moved: the moments at which the stored weight changed.
    """

    services: Services
    listeners: SimulatedListeners
    failures: list[str] = field(default_factory=list[str])
    asked: dict[str, int] = field(default_factory=dict[str, int])
    shares: list[Shares] = field(default_factory=list[Shares])
    moved: list[float] = field(default_factory=list[float])
    _rng: random.Random = field(default_factory=lambda: random.Random(11))

    @property
    def unanswered(self) -> list[str]:
        """The requests that nobody answered."""
        return [each for each in self.failures if "nobody serves" in each]

    async def watch_for_ever(self) -> None:
        while True:
            await asyncio.sleep(0.25)
            self._ask()
            self._judge(await self.services.status())

    def _ask(self) -> None:
        weights = self.listeners.weights.get(ROUTE) or {}
        if not any(weights.values()):
            return
        [service] = self._rng.choices(list(weights), weights.values())
        cluster = service.removesuffix("-serve-svc")
        self.asked[cluster] = self.asked.get(cluster, 0) + 1
        if not self.services.serves(cluster):
            self.failures.append(f"{self._now}: nobody serves behind {cluster}")

    def _judge(self, status: dict[str, Any]) -> None:
        active = status.get("activeServiceStatus") or {}
        pending = status.get("pendingServiceStatus") or {}
        if "targetCapacity" not in pending or "rayClusterName" not in active:
            return
        now = Shares(
            active["targetCapacity"], pending["targetCapacity"], pending["trafficRoutedPercent"]
        )
        if self.shares and self.shares[-1].weight != now.weight:
            self.moved.append(self.services.world.loop.time())
        if not self.shares or self.shares[-1] != now:
            self.shares.append(now)
        if now.active + now.pending > 100 + SURGE:  # I1
            self.failures.append(f"{self._now}: too much capacity, {now}")
        if now.weight > now.pending or 100 - now.weight > now.active:  # I2
            self.failures.append(f"{self._now}: more weight than capacity, {now}")
        if active.get("trafficRoutedPercent") != 100 - now.weight:
            self.failures.append(f"{self._now}: the weights are not 100 together, {status}")

    @property
    def _now(self) -> str:
        return f"{self.services.world.loop.time():.1f} s"


@contextlib.asynccontextmanager
async def watched(services: Services, listeners: SimulatedListeners) -> AsyncIterator[Upgrades]:
    """A client asks by the route's weights, and a referee looks on, as long as the block runs."""
    upgrades = Upgrades(services, listeners)
    task = asyncio.create_task(upgrades.watch_for_ever())
    try:
        yield upgrades
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def without_capacity(put: dict[str, Any]) -> dict[str, Any]:
    """The body of a PUT but for its target capacity."""
    return {key: value for key, value in put.items() if key != "target_capacity"}


def capacities(puts: list[dict[str, Any]]) -> list[int | None]:
    return [put.get("target_capacity") for put in puts]


def heads_of(services: Services, cluster: str) -> list[str]:
    return [pod.metadata.name for pod in services.heads() if cluster_of(pod) == cluster]


def between(moments: list[float]) -> list[float]:
    return [later - former for former, later in itertools.pairwise(moments)]
