"""A cluster that is as it should be costs nothing."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from controller.kube.transport import RawResponse, Request, Transport
from tests.integration.harness import OPERATOR, World, embedded_world

CLUSTERS = 100
TEN_MINUTES = 600.0


@pytest.mark.slow
@pytest.mark.embedded_only
@pytest.mark.timeout(180)
async def test_a_hundred_clusters_at_rest_cause_no_write_and_no_list(world: World):
    world.start_operator()
    for number in range(CLUSTERS):
        await world.create_cluster(f"c{number}", replicas=1)
    await world.eventually(lambda: len(world.journal.ready_workers()) == CLUSTERS, seconds=300)
    for number in range(CLUSTERS):
        await world.eventually(lambda n=number: world.is_ready(f"c{n}"), seconds=300)
    await world.settle(30)

    before = requests(world)
    await world.settle(TEN_MINUTES)
    after = requests(world)

    made = {key: count - before.get(key, 0) for key, count in after.items()}
    watches = {key: count for key, count in made.items() if key[0] == "watch"}
    others = {key: count for key, count in made.items() if key not in watches and count}
    assert others == {}
    assert sum(watches.values()) <= 3 * 10, "watches are renewed every five to ten minutes"


def requests(world: World) -> dict[tuple[str, str], int]:
    assert world.server is not None
    return {
        (verb, resource): count
        for (agent, verb, resource), count in world.server.audit.requests.items()
        if agent.startswith(OPERATOR)
    }


# -- requests that a RayCluster costs from its creation until it is ready and all is quiet ---------


_CHILD = re.compile(r"/namespaces/default/(\w+)(/c1)?(/\w+)?$")


class CountingTransport:
    """Counts requests about one namespace by method, resource and subresource; no watches."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.requests: Counter[str] = Counter()

    async def request(self, request: Request) -> RawResponse:
        found = _CHILD.search(request.path)
        if found is not None and not request.watching:
            self.requests[f"{request.method} {found[1]}{found[3] or ''}"] += 1
        return await self._inner.request(request)


@pytest.mark.embedded_only
async def test_a_cluster_with_three_workers_costs_eleven_requests():
    async with embedded_world() as world:
        transport = CountingTransport(world.transport)
        world.start_operator(transport=transport)
        await world.settle(30)
        transport.requests.clear()
        await world.create_cluster("c1", replicas=3)
        await world.eventually(lambda: world.is_ready("c1"), seconds=60)
        await world.settle(120)
    assert transport.requests == {
        "POST services": 1,
        "POST pods": 4,
        "PATCH rayclusters/status": 3,  # the simulated kubelet takes several seconds
        "POST events": 3,  # the service, the head, the workers
    }
