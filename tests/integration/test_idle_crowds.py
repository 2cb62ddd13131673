"""A thousand clusters that become idle in the same moment end without hurting anybody else.

Every request of the operator takes 20 ms, of which 80 are under way at most: as it is with an API
server some way off. Time is virtual, so the figures are the same on every machine.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from controller.ray.api import RAYCLUSTERS
from controller.ray.cluster import RayClusterKind
from controller.ray.dashboard.actors import DashboardActors
from controller.runtime.settings import configure_logging
from controller.testing.faults import DelayedRequest, Rule
from tests.integration.harness import World, cluster_of, embedded_world, example_cluster, role
from tests.integration.test_idle_clusters import options
from tests.ray.dashboard.simulated import SimulatedRay

pytestmark = [pytest.mark.embedded_only, pytest.mark.slow, pytest.mark.rare]

CROWD = 1000
LATENCY = 0.02
TIMEOUT = 120
SPAN = 60
"""Seconds after the timeout in which all have ended: two questions to Ray, and the writes."""

OTHER = "other"


@dataclass
class Seen:
    """What was seen while the crowd ended.

    Attributes:
        delays: seconds until an edit of the other cluster was carried out, one after the other.
    """

    requests: Counter[int] = field(default_factory=Counter[int])
    delays: list[float] = field(default_factory=list[float])


async def end_of_a_crowd(size: int) -> Seen:
    """Let so many clusters become idle at once, and edit another one meanwhile."""
    seen = Seen()
    async with embedded_world() as world:
        ray = SimulatedRay(recording=False)
        actors = DashboardActors(
            ray.connect, clock=world.loop, wall=world.wall, rng=random.Random(1)
        )
        dashboards = actors.for_controller(RayClusterKind.name)
        kind = RayClusterKind(dashboards=dashboards, external_source=dashboards)
        operator = world.start_operator(kind=kind, rules=[Rule(DelayedRequest(LATENCY))])
        await world.create_cluster(OTHER, replicas=1)
        for number in range(size):
            body = example_cluster(f"c{number}", replicas=0)
            body["spec"] |= options(timeout=TIMEOUT)
            await world.user.create(RAYCLUSTERS, world.namespace, body)
        await world.eventually(lambda: len(heads(world)) == size, seconds=600, pause=1)
        places = [(head.metadata.controller.uid, head.metadata.uid, 0) for head in heads(world)]
        for place in places:
            ray.connect_driver(place)
        await world.settle(60)
        for place in places:
            ray.disconnect_driver(place)
        ended = world.loop.time()
        operator.transport.on_request.append(
            lambda _entry: seen.requests.update([int(world.loop.time() - ended)])
        )
        await world.settle(TIMEOUT - 5)
        replicas = 1
        while heads(world):
            replicas = 3 - replicas
            began = world.loop.time()
            await world.scale(replicas, OTHER)
            await world.eventually(
                lambda wanted=replicas: len(world.journal.workers()) == wanted, pause=LATENCY
            )
            seen.delays.append(world.loop.time() - began)
            await world.settle(1)
            assert world.loop.time() < ended + TIMEOUT + SPAN, f"{len(heads(world))} are left"
    return seen


def heads(world: World) -> list[Any]:
    pods = world.journal.present.values()
    return [pod for pod in pods if role(pod) == "head" and cluster_of(pod) != OTHER]


@pytest.mark.timeout(1200)
async def test_a_thousand_that_are_idle_at_once_end_without_a_burst_that_delays_another():
    configure_logging(level="error")
    seen = await end_of_a_crowd(CROWD)
    assert sum(seen.requests.values()) <= 7 * CROWD
    assert max(seen.requests.values()) <= 1100, "no second has as many as there could be: 4,000"
    assert max(seen.delays) <= 3
