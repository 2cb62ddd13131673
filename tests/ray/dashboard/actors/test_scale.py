"""Many dashboards, many of them dead: nothing is delayed, nothing grows."""

from __future__ import annotations

import asyncio
import gc
import statistics
import tracemalloc

import pytest

from controller.ray.dashboard.probes import HealthProbe, JobProbe
from controller.ray.dashboard.responses import JobStatus
from controller.ray.dashboard.slots import RequestSlots, Responsiveness
from tests.ray.dashboard.kit import head, world
from tests.ray.dashboard.simulated import NEVER, Course, Fault, SimulatedRay


def dead(n: int) -> bool:
    return n % 3 == 0


@pytest.mark.slow
@pytest.mark.parametrize("limit", [2.0, 10.0], ids=["direct", "proxied"])
async def test_many_dead_dashboards_delay_the_others_hardly(limit: float):
    """With all slots at the disposal of 500 dead ones nobody else would be heard."""
    ray = SimulatedRay(timeout=limit, recording=False)
    heads = [head(f"cluster-{n}") for n in range(1500)]
    patience, begins = 20, 30
    async with world(ray) as it:
        for n, each in enumerate(heads):
            if dead(n):
                ray.fault(Fault.SILENT, cluster=each.cluster_uid)
            else:
                ray.add(each, "job", course=Course(pending=begins, running=NEVER))
            it.watch(f"ns/{n}", each)
        await asyncio.sleep(patience)
        missing = [n for n, each in enumerate(heads) if it.seen(each).value is None]
        assert all(dead(n) for n in missing)
        assert len(missing) == 500
        await asyncio.sleep(begins - ray.now())
        it.woken.clear()
        await asyncio.sleep(20)
        for n, each in enumerate(heads):
            assert dead(n) or it.seen(each).value.status is JobStatus.RUNNING
        late = [at - begins for at, key in it.woken if not dead(int(key.removeprefix("ns/")))]
        assert statistics.quantiles(late, n=100)[98] < 10
        assert it.actors.statistics().in_flight["unresponsive"] <= 32
        assert ray.most_in_flight <= 128


async def test_a_command_overtakes_all_questions():
    ray = SimulatedRay(recording=False)
    async with world(ray) as it:
        for n in range(1_000):
            it.watch(f"ns/{n}", head(f"cluster-{n}"))
        await asyncio.sleep(1)
        told = it.ray.now()
        at = head("cluster-7")
        it.submit("ns/7", at)
        await it.until(lambda: it.outcome("submit-job", at) is not None)
        assert it.ray.now() - told < 0.5


@pytest.mark.slow
async def test_dead_dashboards_that_once_answered_take_a_quarter_of_the_slots():
    ray = SimulatedRay(recording=False)
    async with world(ray) as it:
        for n in range(500):
            it.watch(f"ns/{n}", head(f"cluster-{n}"), HealthProbe())
        await asyncio.sleep(30)
        for n in range(450):
            ray.fault(Fault.SILENT, cluster=f"cluster-{n}")
        await asyncio.sleep(60)
        for _ in range(200):
            await asyncio.sleep(0.1)
            assert it.actors.statistics().in_flight["unresponsive"] <= 32
        assert it.actors.statistics().failing == 450
        wall = ray.wall()
        fresh = [it.seen(head(f"cluster-{n}"), HealthProbe()) for n in range(450, 500)]
        assert all((wall - each.last_success).total_seconds() < 35 for each in fresh)


@pytest.mark.slow
async def test_dashboards_that_have_recovered_are_found_again():
    ray = SimulatedRay(recording=False)
    async with world(ray) as it:
        ray.fault(Fault.SILENT)
        for n in range(300):
            it.watch(f"ns/{n}", head(f"cluster-{n}"))
        await asyncio.sleep(300)
        assert it.actors.statistics().failing == 300
        ray.fault(None)
        await asyncio.sleep(60)
        assert it.actors.statistics().failing == 0


async def test_memory_is_steady_while_jobs_come_and_go():
    ray = SimulatedRay(recording=False)

    async def generation(it, number: int) -> None:
        for n in range(40):
            at = head(f"cluster-{number}-{n}")
            it.watch(f"ns/{number}-{n}", at)
            it.submit(f"ns/{number}-{n}", at)
        await asyncio.sleep(5)
        for n in range(40):
            it.leave(f"ns/{number}-{n}")
        it.woken.clear()
        ray._jobs.clear()
        ray.accepted.clear()

    async with world(ray) as it:
        for number in range(3):
            await generation(it, number)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(3, 8):
            await generation(it, number)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert grown < 60_000, f"{grown} bytes are left of 200 jobs"
        assert it.actors.statistics().actors == 0


async def test_many_jobs_on_one_head_are_all_asked_about():
    async with world() as it:
        at = head("shared")
        for n in range(200):
            it.ray.add(at, f"job-{n}", course=Course(pending=10, running=NEVER))
            it.watch(f"ns/{n}", at, JobProbe(f"job-{n}"))
        await asyncio.sleep(30)
        seen = [it.seen(at, JobProbe(f"job-{n}")).value.status for n in range(200)]
        assert set(seen) == {JobStatus.RUNNING}
        assert it.ray.most_in_flight == 1, "one question at a time to one head"


class Given:
    """Whom `RequestSlots` let start, and with what trust."""

    def __init__(self, **options) -> None:
        self.started: list[tuple[str, Responsiveness]] = []
        settings = {"concurrency": 8, "rate": 1000.0, "burst": 1000, **options}
        self.slots = RequestSlots(asyncio.get_running_loop(), start=self._start, **settings)

    def _start(self, who: str, trust: Responsiveness) -> bool:
        self.started.append((who, trust))
        return not who.startswith("gone")

    def names(self) -> list[str]:
        return [who for who, _ in self.started]


async def test_the_proven_cannot_shut_out_the_others():
    given = Given(concurrency=4)
    for n in range(10):
        given.slots.enqueue(f"proven-{n}", Responsiveness.RESPONSIVE, urgent=False)
    given.slots.enqueue("fresh", Responsiveness.UNKNOWN, urgent=False)
    given.slots.enqueue("suspect", Responsiveness.UNRESPONSIVE, urgent=False)
    for _ in range(3):
        given.slots.release(Responsiveness.RESPONSIVE)
    assert {"fresh", "suspect"} <= set(given.names())


async def test_the_rate_is_bounded_after_a_burst():
    given = Given(concurrency=1000, rate=10.0, burst=5)
    for n in range(100):
        given.slots.enqueue(f"{n}", Responsiveness.RESPONSIVE, urgent=False)
    assert len(given.started) <= 6
    await asyncio.sleep(5)
    assert 50 <= len(given.started) <= 57
    given.slots.close()
    await asyncio.sleep(60)
    assert len(given.started) <= 57
