"""Five hundred RayJobs, and a hundred of their dashboards accept and never answer.

Every request of the operator takes 20 ms. Time is virtual, so the figures are the same everywhere.
"""

from __future__ import annotations

import asyncio
import gc

import pytest

from controller.ray.dashboard.actors import CONCURRENCY
from controller.testing.faults import DelayedRequest, Rule
from tests.integration.crowds import DEAD, LATER, LIVE, Crowd
from tests.integration.harness import embedded_world

LATENCY = 0.02
JOBS, SILENT, NEW = 500, 100, 50
WATCHED = 30
"""Seconds in which the actors are counted."""
PAUSE = 0.05
"""Seconds between two creations."""

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only, pytest.mark.usefixtures("silence")]


@pytest.mark.timeout(1200)
async def test_a_hundred_dead_dashboards_of_five_hundred_delay_nothing_else():
    async with embedded_world(components=frozenset({"kubelet"})) as world:
        crowd = Crowd(world, (Rule(DelayedRequest(LATENCY)),))
        began = crowd.waits()
        await asyncio.gather(
            crowd.create(DEAD, SILENT, pause=PAUSE), crowd.create(LIVE, JOBS - SILENT, pause=PAUSE)
        )
        await crowd.accepted(JOBS - SILENT, seconds=120)
        assert crowd.p99_wait(began) <= 1.01
        await world.settle(10)

        gc.collect()
        objects, tasks = len(gc.get_objects()), len(asyncio.all_tasks())
        before, start = crowd.waits(), world.loop.time()
        await crowd.create(LATER, NEW, pause=PAUSE)
        await crowd.accepted(JOBS - SILENT + NEW, seconds=60)
        assert world.loop.time() - start - NEW * PAUSE < 20, "as long as one alone takes"
        most = await crowd.watch(WATCHED)
        gc.collect()

        assert crowd.p99_wait(before) <= 1.01
        assert most["probes"] == most["actors"] == JOBS + NEW
        assert most["in flight"] <= CONCURRENCY
        assert most["unresponsive"] <= CONCURRENCY // 4
        assert len(asyncio.all_tasks()) <= tasks + CONCURRENCY
        growth = (len(gc.get_objects()) - objects) / objects
        assert growth < 1.5 * NEW / JOBS, "by the jobs that came"
