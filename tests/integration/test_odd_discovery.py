"""Discovery that is answered by something else: a proxy, or a server that is not well."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from controller.kube.resources import CRDS, PODS
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import ErrorResponse, Rule
from tests.faults.tampering import Tampering
from tests.integration.definitions import restore_definition
from tests.integration.test_odd_answers import unready

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.transport import Chunks, RawResponse, Request
    from controller.testing.journal import Attributes
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


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Collect nothing meanwhile: at the limit of recursion, callbacks of collections fail."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize(
    "content_type", ["application/json", pytest.param("text/plain", marks=pytest.mark.slow)]
)
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
    assert len(operator.transport.journal.entries) < 300


CONVERSION = (
    'conversion webhook for ray.io/v1alpha1, Kind=RayCluster failed: Post "https://kuberay.ray.svc'
    ':443/convert?timeout=30s": dial tcp 10.0.0.7:443: connect: connection refused'
)
CACHES = 20
"""Of an operator for RayClusters, about."""

FAILURES = {
    "the token is not accepted": (Rule(ErrorResponse(401, "Unauthorized")), "renew them"),
    "the conversion webhook is down": (
        Rule(ErrorResponse(500, "", CONVERSION), "rayclusters.ray.io"),
        "repair it, or remove spec.conversion",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_start_that_fails_ends_with_cause_and_remedy(world: World, failure: str):
    rule, remedy = FAILURES[failure]
    operator = world.start_operator(rules=[rule])
    await world.settle(60)
    assert "cannot list rayclusters.ray.io" in unready(operator)[0]
    with capture_logs() as logs:
        await world.settle(120)
    assert await operator.task != 0
    assert remedy in logs[-1]["error"]
    assert len(operator.transport.journal.entries) < 20 * CACHES


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failure_that_comes_later_ends_nothing_and_is_over_with_its_cause(
    world: World, failure: str
):
    operator = world.start_operator()
    await world.create_cluster()
    await world.eventually(world.is_ready)
    since = len(operator.transport.journal.entries)
    operator.transport.rules = [FAILURES[failure][0]]
    lost = world.journal.workers()[0].metadata.name
    await world.user.delete(PODS, world.namespace, lost)
    await world.settle(600)
    assert operator.running
    assert len(operator.transport.journal.entries) - since < 250
    operator.transport.rules = []
    await world.eventually(lambda: len(world.journal.ready_workers()) == 2, seconds=90)
    assert (world.journal.workers_created(), world.journal.workers_deleted()) == (3, 1)
    assert unready(operator) == []


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
