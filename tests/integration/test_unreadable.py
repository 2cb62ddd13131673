"""Pods that do not fit their type: whoever counts must not take them for absent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from controller.kube.transport import Chunks, RawResponse, Transport
    from tests.integration.harness import World

pytestmark = pytest.mark.embedded_only


class Garbled:
    """A transport in whose answers the container of every worker has a name of the wrong type."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> RawResponse:
        status, fields, chunks = await self._inner.request(method, path, query, headers, body)
        return status, fields, garbled(chunks) if path.endswith("/pods") else chunks


async def garbled(chunks: Chunks) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in chunks:
            yield chunk.replace(b'"name":"ray-worker"', b'"name":7')
    finally:
        await chunks.aclose()


async def test_an_operator_that_cannot_read_the_workers_makes_no_others_and_says_so(world: World):
    first = world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    assert await first.stop() == 0

    world.start_operator(transport=Garbled(world.transport))

    async def said() -> bool:
        conditions = (await world.cluster()).status["conditions"]
        [ready] = [each for each in conditions if each["type"] == "Ready"]
        return ready["reason"] == "PodUnreadable"

    await world.eventually(said)
    await world.settle(120)
    assert len(world.journal.created) == 3
    assert not world.journal.marked
