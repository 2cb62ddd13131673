"""Discovery that is answered by something else: a proxy, or a server that is not well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controller.kube.resources import CRDS
from controller.ray.api import RAYCLUSTERS
from tests.faults.tampering import Tampering
from tests.integration.definitions import restore_definition
from tests.integration.test_odd_answers import unready

if TYPE_CHECKING:
    from controller.kube.transport import Chunks, RawResponse, Request
    from tests.faults.attributes import Attributes
    from tests.integration.harness import World

pytestmark = pytest.mark.embedded_only

BODIES = {
    "null": b"null",
    "a list": b"[]",
    "an object": b"{}",
    "a text": b'"x"',
    "resources that are none": b'{"kind":"APIResourceList","resources":[null]}',
    "depth": b"[" * 100_000,
    "nothing": b"",
    "HTML": b"<html>Bad gateway</html>",
    "bytes": b"\xff\xfe",
}


async def once(body: bytes) -> Chunks:
    if body:
        yield body


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("path", ["/apis/", "/openapi/"])
async def test_an_operator_outlives_any_answer_to_discovery(
    world: World, body: str, content_type: str, path: str
):
    def answers(about: Attributes, request: Request) -> RawResponse | None:
        if about.resource or not request.path.startswith(path):
            return None
        return 200, {"content-type": content_type}, once(BODIES[body])

    tampering = Tampering(world.transport)
    tampering.answers = answers
    operator = world.start_operator(transport=tampering)
    await world.create_cluster()
    await world.settle(60)
    assert operator.running
    tampering.answers = lambda _about, _request: None
    await world.eventually(world.is_ready, seconds=120)
    tampering.answers = answers
    await world.settle(120)
    assert operator.running
    assert unready(operator) == []
    assert len(operator.transport.journal.entries) < 250


async def test_a_definition_without_the_status_is_named_and_costs_little(world: World):
    operator = world.start_operator()
    await world.settle(5)
    definition = await world.user.get_raw(CRDS, "", str(RAYCLUSTERS))
    for version in definition["spec"]["versions"]:
        version["subresources"].pop("status", None)
    await world.user.replace(CRDS, "", str(RAYCLUSTERS), definition)
    await world.create_cluster()
    await world.settle(20)
    since = len(operator.transport.journal.entries)
    await world.settle(600)
    written = [
        entry
        for entry in operator.transport.journal.entries[since:]
        if entry.attributes.resource == str(RAYCLUSTERS) and entry.attributes.verb != "watch"
    ]
    assert 3 <= len(written) <= 30
    [note] = [
        note for _, note in await world.events_about("RayCluster", "example") if "has no" in note
    ]
    assert "rayclusters.ray.io has no subresource status: install this operator" in note
    assert (world.journal.workers_created(), world.journal.workers_deleted()) == (2, 0)
    await restore_definition(world)
    await world.eventually(world.is_ready)
