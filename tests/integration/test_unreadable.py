"""A cluster that becomes too deep to be decoded costs only itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest

from controller.kube.resources import PODS
from controller.kube.transport import Chunks, RawResponse, Request, Transport
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import World, example_cluster

pytestmark = pytest.mark.embedded_only


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
