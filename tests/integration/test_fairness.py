"""No cluster delays another: what matters is how long requests take, not how many others ask for.

Every request of the operator takes 20 ms, of which 80 are under way at most: as it is with an API
server some way off. Time is virtual, so the figures are the same on every machine.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import DelayedRequest, ErrorResponse, Rule
from tests.integration.harness import World, cluster_of, embedded_world, example_cluster

LATENCY = 0.02
SMALL = [f"small-{number}" for number in range(10)]
WORKERS = 3
BIG = [f"big-{number}" for number in range(3)]
GROWTH = 1000

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]


@pytest.mark.timeout(180)
async def test_clusters_that_grow_by_a_thousand_delay_no_small_one():
    alone = await seconds_to_all_pods(growing=False)
    together = await seconds_to_all_pods(growing=True)
    assert together <= 2 * alone


async def seconds_to_all_pods(*, growing: bool) -> float:
    """Seconds from the creation of the small clusters until all of them have all their pods."""
    async with embedded_world() as world:
        world.start_operator(rules=[Rule(DelayedRequest(LATENCY))])
        for name in BIG:
            body = example_cluster(name, replicas=0)
            body["spec"]["workerGroupSpecs"][0]["maxReplicas"] = GROWTH
            await world.user.create(RAYCLUSTERS, world.namespace, body)
        await world.eventually(lambda: len(world.journal.created) == len(BIG))
        await world.settle(10)
        if growing:
            await asyncio.gather(*(world.scale(GROWTH, name) for name in BIG))
            await world.eventually(lambda: min(pods(world, BIG)) > 64)

        began = world.loop.time()
        await asyncio.gather(*(world.create_cluster(name, replicas=WORKERS) for name in SMALL))
        complete = [1 + WORKERS] * len(SMALL)
        await world.eventually(lambda: pods(world, SMALL) == complete, pause=LATENCY / 4)
        if growing:
            assert max(pods(world, BIG)) < GROWTH, "they still grow"
        return world.loop.time() - began


def pods(world: World, clusters: list[str]) -> list[int]:
    counts = Counter(map(cluster_of, world.journal.created.values()))
    return [counts[name] for name in clusters]


HANGS = DelayedRequest(10.0)
TIMED_OUT = ErrorResponse(
    500,
    "InternalError",
    'Internal error occurred: failed calling webhook "slow.example.com": context deadline exceeded',
)
CREATE_PODS = frozenset({"create"})


@pytest.mark.timeout(240)
async def test_two_hundred_clusters_whose_creates_hang_delay_no_new_one():
    alone = await seconds_until_ready(sick=0)
    assert await seconds_until_ready(sick=200) <= 2 * alone + 2


@pytest.mark.timeout(240)
async def test_two_hundred_creates_that_begin_to_hang_at_once_delay_no_new_cluster():
    alone = await seconds_until_ready(sick=0, incubation=0.5)
    assert await seconds_until_ready(sick=200, incubation=0.5) <= 2 * alone + 2


async def seconds_until_ready(*, sick: int, incubation: float = 60) -> float:
    """Seconds until a new cluster is ready, when the pods of `sick` others cannot be created.

    They share its namespace, and each attempt hangs in a webhook for ten seconds. The operator has
    known them for so many seconds.
    """
    async with embedded_world() as world:

        def is_sick(name: str) -> bool:
            return name.startswith("sick")

        for number in range(sick):
            await world.create_cluster(f"sick-{number}", replicas=1)
        world.start_operator(
            rules=[
                Rule(DelayedRequest(LATENCY)),
                Rule(HANGS, "pods", CREATE_PODS, is_sick),
                Rule(TIMED_OUT, "pods", CREATE_PODS, is_sick),
            ]
        )
        await world.settle(incubation)
        began = world.loop.time()
        await world.create_cluster("healthy", replicas=WORKERS)
        await world.eventually(lambda: world.is_ready("healthy"), pause=0.1, seconds=120)
        return world.loop.time() - began


async def test_forty_clusters_that_get_nowhere_keep_no_worker_from_the_next():
    async with embedded_world() as world:
        operator = world.start_operator(workers=1)
        for number in range(40):
            await world.user.create(RAYCLUSTERS, world.namespace, stuck(f"stuck-{number}"))
        await world.eventually(lambda: len(world.journal.created) == 40)
        await world.settle(60)
        queue = operator.operator.controllers["raycluster-controller"].queue
        assert queue.statistics().processing == 0, "nobody waits for what is not there"
        began = world.loop.time()
        await world.create_cluster("next", replicas=WORKERS)
        await world.eventually(lambda: pods(world, ["next"]) == [1 + WORKERS], pause=0.01)
        assert world.loop.time() - began < 0.1


def stuck(name: str) -> dict[str, Any]:
    """A cluster whose head never leaves Pending."""
    body = example_cluster(name, replicas=0)
    template = body["spec"]["headGroupSpec"]["template"]
    template["metadata"] = {"annotations": {"sim.manta.dev/outcome": "hang-pending"}}
    return body
