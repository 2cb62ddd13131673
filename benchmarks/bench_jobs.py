"""Two hundred RayJobs of which twenty have dashboards that accept and never answer, in real time.

Operator, embedded API server, kubelet and the simulated Rays share one process and one core. What
users of the others want to know is how long their jobs wait for the silent ones.
"""

from __future__ import annotations

import asyncio
import time

from msgspec import Struct

from controller.runtime.settings import configure_logging
from devcluster.nodes import NodeSettings
from tests.integration.crowds import DEAD, LIVE, Crowd
from tests.integration.harness import embedded_world

AT_ONCE = NodeSettings(start_delay=0.0, init_delay=0.0, ready_delay=0.0, termination_delay=0.0)
JOBS, SILENT = 200, 20
REST = 20


class CrowdTrial(Struct, frozen=True):
    """Measurements of one crowd: seconds, and the most that was under way at once."""

    all_accepted: float
    processor: float
    p99_wait: float
    p99_wait_later: float
    processor_later: float
    most_in_flight: int


async def trial(silent: int) -> CrowdTrial:
    """Create all jobs at once; the silent ones are created first and come on top."""
    async with embedded_world(nodes=AT_ONCE, components=frozenset({"kubelet"})) as world:
        crowd = Crowd(world)
        await world.settle(1)
        began, used, waits = time.perf_counter(), time.process_time(), crowd.waits()
        await crowd.create(DEAD, silent)
        await crowd.create(LIVE, JOBS - SILENT)
        await crowd.accepted(JOBS - SILENT, seconds=600)
        took, spent = time.perf_counter() - began, time.process_time() - used
        wait = crowd.p99_wait(waits)
        waits, used = crowd.waits(), time.process_time()
        most = await crowd.watch(REST)
        return CrowdTrial(
            took,
            spent,
            wait,
            crowd.p99_wait(waits),
            time.process_time() - used,
            most["in flight"],
        )


def run() -> dict[str, float]:
    """With the silent dashboards and without them."""
    configure_logging(level="error")
    without, beside = asyncio.run(trial(0)), asyncio.run(trial(SILENT))
    figures: dict[str, float] = {}
    for how, tried in (("alone", without), ("beside 20 silent", beside)):
        figures |= {
            f"s until Ray had 180 jobs, {how}": tried.all_accepted,
            f"processor ms per job, {how}": 1e3 * tried.processor / JOBS,
            f"p99 wait in the queue, s, {how}": tried.p99_wait,
            f"p99 wait in the queue afterwards, s, {how}": tried.p99_wait_later,
            f"processor share afterwards, %, {how}": 100 * tried.processor_later / REST,
            f"requests to dashboards at once at most, {how}": tried.most_in_flight,
        }
    return figures


if __name__ == "__main__":
    print(run())
