"""Very many RayJobs over HTTP, each on a head of its own; some dashboards never answer."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from controller.command.kinds import KindSettings, kinds_of
from controller.ray.api import RAYJOBS
from controller.ray.dashboard import Head
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.settings import RaySettings
from tests.integration.harness import World
from tests.integration.rays import forever, job_manifest
from tests.ray.dashboard.simulated import Fault, SimulatedRay

DEAD, LIVE, LATER = "dead", "live", "later"
PATIENT = RaySettings(status_check_timeout=timedelta(hours=5))
"""Else the jobs of dead dashboards would fail, and be gone, after five minutes."""


class PartlySilentRay(SimulatedRay):
    """The dashboards of objects whose names begin with `dead` accept and never answer."""

    def _fault_of(self, head: Head) -> Fault | None:
        return Fault.SILENT if head.service.startswith(DEAD) else super()._fault_of(head)


class Crowd:
    """Jobs that run for ever, and an operator of all kinds that cares for them.

    Attributes:
        ray: knows which jobs were accepted.
        actors: of the operator.
    """

    def __init__(self, world: World, rules: tuple[Any, ...] = ()) -> None:
        self.world = world
        self.ray = PartlySilentRay(recording=False)
        self.ray.course = lambda _body: forever()
        self.actors = DashboardActors(
            self.ray.connect, clock=world.loop, wall=world.wall, rng=random.Random(1)
        )
        self._registry = CollectorRegistry()
        world.start_operator(
            kinds=kinds_of(KindSettings(ray=PATIENT), self.actors),
            rules=rules,
            registry=self._registry,
        )

    async def create(self, prefix: str, count: int, *, pause: float = 0.0) -> None:
        """Jobs whose clusters have a head only; `pause` seconds between two of them."""
        body = job_manifest()
        body["spec"]["rayClusterSpec"]["workerGroupSpecs"] = []
        for number in range(count):
            body["metadata"] = {"name": f"{prefix}-{number}"}
            await self.world.user.create(RAYJOBS, self.world.namespace, body)
            await asyncio.sleep(pause)

    async def accepted(self, count: int, *, seconds: float, pause: float = 0.1) -> None:
        """Wait until Ray has taken so many jobs."""
        await self.world.eventually(
            lambda: len(self.ray.accepted) == count, seconds=seconds, pause=pause
        )

    def waits(self) -> Counter[float]:
        """FairLimiter so far that waited in the queue no longer than so many seconds."""
        found: Counter[float] = Counter()
        for family in self._registry.collect():
            for sample in family.samples:
                if sample.name == "workqueue_queue_duration_seconds_bucket":
                    found[float(sample.labels["le"])] += int(sample.value)
        return found

    def p99_wait(self, before: Counter[float]) -> float:
        """Seconds that 99 of 100 turns since then waited at most: the edge of a bucket."""
        since = {edge: count - before[edge] for edge, count in sorted(self.waits().items())}
        enough = 0.99 * since[float("inf")]
        return next(edge for edge, count in since.items() if count >= enough)

    async def watch(self, seconds: int) -> Counter[str]:
        """The most that was seen of each number of the actors, once a second."""
        most: Counter[str] = Counter()
        for _ in range(seconds):
            await asyncio.sleep(1)
            seen = self.actors.statistics()
            numbers = {"probes": seen.probes, "actors": seen.actors, **seen.in_flight}
            numbers["in flight"] = sum(seen.in_flight.values())
            most |= Counter(numbers)
        return most
