"""One scrape of the metrics of 3,000 RayClusters: its processor time, and its longest slice.

Other tasks run between two slices, so the longest is what a scrape can delay them. Aim: 10 ms.
"""

from __future__ import annotations

import asyncio
import time

import msgspec
from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.virtual import run_virtual
from controller.ray.api.raycluster import RayCluster
from controller.ray.cluster import ClusterCollector
from controller.runtime.health import write_metrics

CLUSTERS = 3_000


def cluster(number: int) -> RayCluster:
    """A ready RayCluster, as far as metrics read it."""
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-11-24T00:01:00Z"}
        for kind in ("RayClusterProvisioned", "Ready")
    ]
    metadata = {
        "name": f"c{number}",
        "namespace": "default",
        "uid": f"00000000-0000-0000-0000-{number:012}",
        "creationTimestamp": "2026-11-24T00:00:00Z",
    }
    return msgspec.convert({"metadata": metadata, "status": {"conditions": conditions}}, RayCluster)


class Stopwatch:
    """Measures the turns of the event loop while it does something else as well."""

    def __init__(self) -> None:
        self.turns: list[float] = []

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            began = time.process_time()
            await asyncio.sleep(0)
            self.turns.append(time.process_time() - began)


async def scrape(registry: CollectorRegistry) -> list[float]:
    """Seconds of each turn of the event loop during a scrape."""
    stopwatch = Stopwatch()
    watching = asyncio.create_task(stopwatch.run())
    await asyncio.sleep(0)
    await write_metrics(registry, generate_latest)
    watching.cancel()
    return stopwatch.turns


def run() -> dict[str, float]:
    """Milliseconds of processor time."""
    clusters = [cluster(number) for number in range(CLUSTERS)]
    registry = CollectorRegistry()
    registry.register(ClusterCollector(lambda: clusters))
    began = time.process_time()
    generate_latest(registry)
    whole = time.process_time() - began
    turns = run_virtual(scrape(registry))
    return {
        "at once, ms": 1e3 * whole,
        "in slices, ms": 1e3 * sum(turns),
        "the longest slice, ms": 1e3 * max(turns),
    }


if __name__ == "__main__":
    print(run())
