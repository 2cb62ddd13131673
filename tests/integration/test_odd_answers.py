"""Whatever a watch or discovery brings, nothing is created or deleted for it."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.kube.resources import CRDS, PODS
from controller.kube.transport import Chunks, RawResponse, Request
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import ErrorResponse, Rule
from controller.testing.journal import Attributes
from tests.faults.tampering import Lines, Tampering, unaltered
from tests.integration.definitions import restore_definition
from tests.integration.harness import RunningOperator, World

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

PATIENCE = 600.0
"""Seconds that it may take: each event out of order costs a delay of up to a minute."""

WATCHED = frozenset({"pods", "rayclusters.ray.io", "services"})


def of_changes(alter: Callable[[dict[str, Any]], Iterable[dict[str, Any] | bytes]]) -> Lines:
    """Deliver in place of each change of an object what `alter` gives for it."""

    def lines(about: Attributes, line: bytes) -> Iterable[bytes]:
        event = json.loads(line)
        if event["type"] == "BOOKMARK" or about.resource not in WATCHED:
            return [line]
        altered = alter(event)
        return [each if isinstance(each, bytes) else json.dumps(each).encode() for each in altered]

    return lines


def also(**fields: Any) -> Lines:
    """Deliver a second event beside each change, with these metadata."""

    def alter(event: dict[str, Any]) -> Iterable[dict[str, Any]]:
        metadata = event["object"]["metadata"] | fields
        return [event, {**event, "object": event["object"] | {"metadata": metadata}}]

    return of_changes(alter)


def repeated_as(kind: str) -> Lines:
    """Deliver each change a second time, as an event of this type."""
    return of_changes(lambda event: [event, {**event, "type": kind}])


def out_of_order() -> Lines:
    """Deliver every second line of a resource behind the next one, be that a bookmark."""
    kept: dict[str, bytes] = {}

    def lines(about: Attributes, line: bytes) -> Iterable[bytes]:
        if about.resource not in WATCHED:
            return [line]
        if before := kept.pop(about.resource, None):
            return [line, before]
        if json.loads(line)["type"] == "BOOKMARK":
            return [line]
        kept[about.resource] = line
        return []

    return lines


def repeated_later() -> Lines:
    """Deliver the first change of each resource again behind every later one."""
    first: dict[str, bytes] = {}

    def lines(about: Attributes, line: bytes) -> Iterable[bytes]:
        if about.resource not in WATCHED or json.loads(line)["type"] == "BOOKMARK":
            return [line]
        return [line, first.setdefault(about.resource, line)]

    return lines


def in_disguise(event: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Return the event, and another kind of object under the same name, with nothing in it."""
    obj = event["object"]
    revision = str(int(obj["metadata"]["resourceVersion"]) + 1)
    metadata = obj["metadata"] | {"resourceVersion": revision}
    empty = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "spec": {}, "status": {}}
    return [event, {"type": "MODIFIED", "object": empty}]


ODD: dict[str, Lines] = {
    "twice": of_changes(lambda event: [event, event]),
    "added again": repeated_as("ADDED"),
    "deleted at the same revision": repeated_as("DELETED"),
    "out of order": out_of_order(),
    "the first again and again": repeated_later(),
    "older": also(resourceVersion="1"),
    "a revision that is no number": also(resourceVersion="abc"),
    "without a revision": also(resourceVersion=""),
    "without a namespace": also(namespace="", name="stray", uid="stray"),
    "of another namespace": also(namespace="elsewhere", name="stray", uid="stray"),
    "of an unknown name, deleted": of_changes(
        lambda event: [
            event,
            {
                "type": "DELETED",
                "object": event["object"]
                | {"metadata": event["object"]["metadata"] | {"name": "stray", "uid": "stray"}},
            },
        ]
    ),
    "of another kind": of_changes(in_disguise),
    "without an object": of_changes(lambda event: [event, {"type": "MODIFIED"}]),
    "with null": of_changes(lambda event: [event, {"type": "MODIFIED", "object": None}]),
    "no JSON": of_changes(lambda event: [event, b"<html>Bad gateway</html>"]),
    "an error that cannot be read": of_changes(
        lambda event: [event, {"type": "ERROR", "object": {"kind": "Status", "code": "500"}}]
    ),
    "an error without a status": of_changes(
        lambda event: [event, {"type": "ERROR", "object": None}]
    ),
}


@pytest.mark.parametrize(
    "everywhere",
    [
        pytest.param(False, id="own namespace"),
        pytest.param(True, id="all namespaces"),
    ],
)
@pytest.mark.parametrize("odd", ODD)
async def test_a_cluster_is_made_and_scaled_whatever_events_come_beside_those_of_the_server(
    world: World, odd: str, everywhere: bool
):
    tampering = Tampering(world.transport)
    namespaces = () if everywhere else None
    operator = world.start_operator(transport=tampering, namespaces=namespaces)
    tampering.lines = ODD[odd]
    await world.create_cluster()
    await world.eventually(world.is_ready, seconds=PATIENCE)
    await world.settle(60)
    await world.scale(3)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 3, seconds=PATIENCE)
    await world.settle(300)
    tampering.lines = unaltered
    assert world.journal.most_live_heads == 1
    assert (world.journal.workers_created(), world.journal.workers_deleted()) == (3, 0)
    assert len(operator.transport.journal.entries) < 250
    await world.settle(60)
    assert unready(operator) == []
    await world.scale(1)
    await world.eventually(lambda: len(world.journal.workers()) == 1, seconds=60)
    assert operator.running


def unready(operator: RunningOperator) -> list[str]:
    checks = operator.operator.health.endpoints["readyz"]
    return [f"{name}: {why}" for name, check in checks.items() if (why := check())]


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
