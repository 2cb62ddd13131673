"""Requests that a RayCluster costs from its creation until it is ready and all is quiet."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.integration.harness import embedded_world

if TYPE_CHECKING:
    from controller.kube.transport import RawResponse, Request, Transport

pytestmark = pytest.mark.embedded_only

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
