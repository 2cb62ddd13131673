"""A rolling update of a thousand workers with a surge of 10 %, in virtual time."""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import datetime

from benchmarks.virtual import run_virtual
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.observation import AnyCluster
from controller.ray.dashboard.actors import DashboardActors
from controller.runtime.plan import Plan
from controller.runtime.settings import configure_logging
from tests.integration.harness import embedded_world
from tests.integration.rolling import RollingWorld, rolling_manifest

WORKERS = 1000
SURGE = "10%"
WRITES = frozenset({"create", "patch", "update", "delete"})


class TimedKind(RayClusterKind):
    """Notes how long each plan takes, in processor seconds."""

    def __init__(self, actors: DashboardActors) -> None:
        own = actors.for_controller(RayClusterKind.name)
        super().__init__(None, own, own)
        self.took: list[float] = []

    def plan(self, observation: AnyCluster, now: datetime) -> Plan:
        """The plan, timed."""
        began = time.process_time()
        try:
            return super().plan(observation, now)
        finally:
            self.took.append(time.process_time() - began)


async def roll() -> dict[str, float]:
    """Replace all workers."""
    async with embedded_world() as world:
        manifest = rolling_manifest(WORKERS, maxSurge=SURGE)
        manifest["spec"]["workerGroupSpecs"][0]["maxReplicas"] = WORKERS
        rolling = RollingWorld(world, manifest, refereed=False)
        actors = DashboardActors(
            rolling.rays.ray.connect, clock=world.loop, wall=world.wall, rng=random.Random(1)
        )
        kind = TimedKind(actors)
        operator = world.start_operator(kinds=[kind])
        await rolling.create()
        await world.settle(60)
        kind.took.clear()
        answered, asked = len(operator.transport.journal.entries), rolling.rays.ray.requests()
        began, used = world.loop.time(), time.process_time()
        await rolling.edit("new")
        await rolling.completes(36_000)
        entries = operator.transport.journal.entries[answered:]
        verbs = Counter(entry.attributes.verb for entry in entries)
        return {
            "workers": WORKERS,
            "plans": len(kind.took),
            "processor ms a plan, on average": 1e3 * sum(kind.took) / len(kind.took),
            "processor ms a plan, at most": 1e3 * max(kind.took),
            "writes to the API server per replaced pod": sum(verbs[verb] for verb in WRITES)
            / WORKERS,
            "other requests to it per replaced pod": sum(
                count for verb, count in verbs.items() if verb not in WRITES
            )
            / WORKERS,
            "requests to Ray per replaced pod": (rolling.rays.ray.requests() - asked) / WORKERS,
            "seconds of the cluster's time": world.loop.time() - began,
            "processor s of everything, kubelet and server too": time.process_time() - used,
        }


def run() -> dict[str, float]:
    """The figures."""
    configure_logging(level="error")
    return run_virtual(roll())


if __name__ == "__main__":
    print(run())
