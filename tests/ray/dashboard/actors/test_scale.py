"""Many dashboards, many of them dead: nothing is delayed, nothing grows."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

from controller.ray.dashboard.probes import JobProbe
from controller.ray.dashboard.responses import JobStatus
from controller.ray.dashboard.slots import RequestSlots, Responsiveness
from tests.ray.dashboard.kit import head, world
from tests.ray.dashboard.simulated import NEVER, Course, SimulatedRay


def dead(n: int) -> bool:
    return n % 3 == 0


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
