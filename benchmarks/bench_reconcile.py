"""No-op reconciles per second on one core: ready clusters, woken again with nothing to do.

The whole path is measured: queue, observation through the overlay, plan, comparison of the status,
log line. Time is virtual, so pauses between runs of one key cost nothing; what is counted is the
processor's time. Aim: 1,000 a second.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.virtual import run_virtual
from controller.runtime.controller import Controller
from controller.runtime.settings import configure_logging
from tests.integration.harness import embedded_world

CLUSTERS = 50
ROUNDS = 40


async def measure(workers: int) -> float:
    """Reconciles per second of clusters with this many workers each."""
    async with embedded_world() as world:
        operator = world.start_operator().operator
        for number in range(CLUSTERS):
            await world.create_cluster(f"c{number}", replicas=workers)
        await world.eventually(
            lambda: len(world.journal.ready_workers()) == CLUSTERS * workers, seconds=600, pause=1
        )
        await world.settle(30)
        [controller] = operator.controllers.values()
        keys = [f"{world.namespace}/c{number}" for number in range(CLUSTERS)]
        return await no_ops(controller, keys)


async def no_ops(controller: Controller[object], keys: list[str]) -> float:
    """Wake all keys again and again; returns runs per second of processor time."""
    began = time.process_time()
    for _ in range(ROUNDS):
        for key in keys:
            controller.enqueue(key)
        await asyncio.sleep(1)  # virtual
    return ROUNDS * len(keys) / (time.process_time() - began)


def run() -> dict[str, float]:
    """No-op reconciles per second, by the size of the clusters."""
    configure_logging(level="error")
    return {
        f"no-op reconciles/s, {workers} workers a cluster": run_virtual(measure(workers))
        for workers in (1, 3, 10)
    }


if __name__ == "__main__":
    print(run())
