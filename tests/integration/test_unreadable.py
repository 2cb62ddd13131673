"""Objects that do not fit their type or are too deep: each costs only itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.kube.resources import PODS
from controller.kube.transport import Chunks, RawResponse, Request, Transport
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import World, example_cluster

pytestmark = pytest.mark.embedded_only

LEVELS = (600, 1500, 9000)
"""What Python's recursion does not bear, what no decoder bears, and nearly the API server's limit.
"""


@dataclass
class Garbled:
    """A transport in whose answers about one resource these bytes stand in the place of others."""

    inner: Transport
    plural: str
    found: bytes
    given: bytes

    async def request(self, request: Request) -> RawResponse:
        status, fields, chunks = await self.inner.request(request)
        return (
            status,
            fields,
            self._garbled(chunks) if f"/{self.plural}" in request.path else chunks,
        )

    async def _garbled(self, chunks: Chunks) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in chunks:
                yield chunk.replace(self.found, self.given)
        finally:
            await chunks.aclose()


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def deep(world: World, levels: int) -> Garbled:
    return Garbled(world.transport, "rayclusters", b'"DEEP"', nested(levels))


def deep_cluster(name: str = "deep", **changes: Any) -> dict[str, Any]:
    body = example_cluster(name)
    body["spec"]["headGroupSpec"]["template"]["spec"]["odd"] = "DEEP"
    body["spec"] |= changes
    return body


async def test_an_operator_that_cannot_read_the_workers_makes_no_others_and_says_so(world: World):
    first = world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    assert await first.stop() == 0

    wrong = Garbled(world.transport, "pods", b'"name":"ray-worker"', b'"name":7')
    world.start_operator(transport=wrong)
    await world.becomes(world.condition, lambda found: found["reason"] == "PodUnreadable")
    await world.settle(120)
    assert len(world.journal.created) == 3
    assert not world.journal.marked


@pytest.mark.parametrize("levels", LEVELS)
async def test_a_cluster_that_is_too_deep_costs_only_itself(world: World, levels: int):
    """Whether it comes by watch or by list, it is named, left alone, and can be corrected."""
    registry = CollectorRegistry()
    first = world.start_operator(transport=deep(world, levels), registry=registry)
    await world.eventually(lambda: registry.get_sample_value(*SYNCED))
    await world.user.create(RAYCLUSTERS, world.namespace, deep_cluster())
    await world.create_cluster("healthy")
    await world.eventually(lambda: world.is_ready("healthy"))
    assert (await world.cluster("deep")).status == {}
    assert registry.get_sample_value(*QUARANTINED) == 1
    [(reason, note)] = await world.events_about("RayCluster", "deep")
    assert reason == "Unreadable"
    assert note.endswith("nested too deeply, at most 100 levels are possible")
    assert await first.stop() == 0

    second = world.start_operator(transport=deep(world, levels))
    await world.scale(3, "healthy")
    await world.eventually(lambda: len(world.journal.ready_workers()) == 3)
    assert second.running
    path = "/spec/headGroupSpec/template/spec/odd"
    await world.user.json_patch(
        RAYCLUSTERS, world.namespace, "deep", [{"op": "remove", "path": path}]
    )
    await world.eventually(lambda: world.is_ready("deep"))
    assert second.running


async def test_a_cluster_that_becomes_too_deep_is_left_alone_and_can_be_deleted(world: World):
    operator = world.start_operator(transport=deep(world, 1500))
    await world.create_cluster("deep")
    await world.eventually(lambda: world.is_ready("deep"))
    await world.settle(10)
    status = (await world.cluster("deep")).status
    patch = {"spec": deep_cluster()["spec"]}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "deep", patch)
    await world.settle(120)
    assert "Unreadable" in [reason for reason, _ in await world.events_about("RayCluster", "deep")]
    assert not world.journal.marked
    created = len(world.journal.created)
    lost = (await world.user.list(PODS, world.namespace)).items[-1].metadata
    await world.user.delete(PODS, world.namespace, lost.name)
    await world.settle(120)
    assert len(world.journal.created) == created
    assert await operator.stop() == 0
    operator = world.start_operator(transport=deep(world, 1500))
    await world.settle(120)
    assert world.journal.marked == {lost.uid}
    assert (await world.cluster("deep")).status == status
    await world.user.delete(RAYCLUSTERS, world.namespace, "deep")
    await world.eventually(lambda: world.is_gone("deep"))
    assert operator.running


LABELS = {
    "name": "rayclusters.ray.io/default",
    "group": "ray.io",
    "version": "v1",
    "resource": "rayclusters",
}
SYNCED = ("informer_synced", LABELS)
QUARANTINED = ("informer_quarantined_objects", LABELS)
