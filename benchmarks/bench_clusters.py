"""Clusters brought to ready per second on the embedded server: one head and three workers each.

Time is virtual and the simulated kubelet needs none of it, so what is counted is the processor's
time of operator, API server and kubelet together, on one core.
"""

from __future__ import annotations

import time

from benchmarks.virtual import run_virtual
from controller.runtime.settings import configure_logging
from devcluster.nodes import NodeSettings
from tests.integration.harness import OPERATOR, embedded_world

CLUSTERS = 100
WORKERS = 3
AT_ONCE = NodeSettings(start_delay=0.0, init_delay=0.0, ready_delay=0.0, termination_delay=0.0)


async def measure() -> dict[str, float]:
    """Bring all clusters to ready and count."""
    async with embedded_world(nodes=AT_ONCE) as world:
        assert world.server is not None
        world.start_operator()
        await world.settle(5)
        began = time.process_time()
        for number in range(CLUSTERS):
            await world.create_cluster(f"c{number}", replicas=WORKERS)
        await world.eventually(
            lambda: len(world.journal.ready_workers()) == CLUSTERS * WORKERS, pause=1
        )
        for number in range(CLUSTERS):
            await world.eventually(lambda n=number: world.is_ready(f"c{n}"), pause=1)
        seconds = time.process_time() - began
        writes = sum(
            count
            for (agent, verb, _), count in world.server.audit.requests.items()
            if agent.startswith(OPERATOR) and verb not in {"get", "list", "watch"}
        )
    return {
        "clusters ready/s (head and 3 workers, one core for all)": CLUSTERS / seconds,
        "pods ready/s": CLUSTERS * (1 + WORKERS) / seconds,
        "writes of the operator per cluster": writes / CLUSTERS,
        "pods per cluster (more than 4 would be surplus)": len(world.journal.created) / CLUSTERS,
    }


def run() -> dict[str, float]:
    """Clusters per second, and what they cost."""
    configure_logging(level="error")
    return run_virtual(measure())


if __name__ == "__main__":
    print(run())
