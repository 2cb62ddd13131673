"""Crash at every write about a RayService, lose every answer: the same end, and no failed request.

The scenario is one RayService whose image and config are edited together, and whose config is
edited once more when the new cluster serves. It is played once to count the writes, then with a
fault at a sample of them: so many that a test takes a minute of processor time at most. A client
asks all the while, and the referee checks the invariants after every transition of the store.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from controller.ray.dashboard.client.client import TIMEOUT
from tests.faults.faulty_transport import Gone, LostRequest, LostResponse, Rule, watch_lag
from tests.integration.harness import embedded_world
from tests.integration.measuring import measured_once
from tests.integration.rayservices import (
    Services,
    asked,
    serve_config,
    service_manifest,
    with_image,
)
from tests.integration.test_rayjob_crashes import kill_at
from tests.ray.dashboard.simulated import Fault
from tests.simulation.service_referee import ServiceReferee

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.faults.faulty_transport import JournalEntry

pytestmark = [
    pytest.mark.embedded_only,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("silence"),
]

PLACES = 8
"""Places in which a test tries a fault, spread evenly over all there are."""

NEW_IMAGE = "rayproject/ray:2.53.0"
SERVICE, CLUSTERS = "rayservices.ray.io", "rayclusters.ray.io"
STABLE = ("svc-head-svc", "svc-serve-svc")
WRITES = frozenset({"create", "patch", "update", "delete"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a scenario ends.

    Attributes:
        served: what each Serve was told to serve, in this order, without repetitions.
        clusters_left: how many there are.
        wrong: what the client and the referee saw.
    """

    served: tuple[tuple[str, ...], ...]
    clusters_left: int
    wrong: tuple[str, ...] = ()


EXPECTED = Outcome((("first",), ("second", "third")), clusters_left=1)


@asynccontextmanager
async def a_world() -> AsyncIterator[tuple[Services, ServiceReferee]]:
    async with embedded_world() as world:
        services, referee = Services(world), ServiceReferee([])
        assert world.server is not None
        world.server.on_write.append(referee)
        yield services, referee


async def play(services: Services, referee: ServiceReferee) -> Outcome:
    """The scenario, its operator running already."""
    manifest = service_manifest(
        serveConfigV2=serve_config("first"), rayClusterDeletionDelaySeconds=5
    )
    await services.create(manifest)
    await services.reaches(lambda s: s.get("serviceStatus") == "Running", seconds=600)
    old = await services.active()
    failures: list[str] = []
    async with asked(services, failures):
        edited = with_image(manifest, NEW_IMAGE)
        edited["spec"]["serveConfigV2"] = serve_config("second")
        await services.edit(edited)
        await services.reaches(
            lambda s: s["activeServiceStatus"]["rayClusterName"] != old, seconds=600
        )
        edited["spec"]["serveConfigV2"] = serve_config("third")
        await services.edit(edited)
        await services.world.eventually(lambda: services.told()[-1][-1] == "third", seconds=300)
        await services.world.eventually(lambda: only_one(services), seconds=300)
        await services.world.settle(60)
    assert await services.is_ready()
    for uid, puts in services.puts():
        referee.check_puts(uid, puts)
    served = tuple(tuple(dict.fromkeys(each)) for each in services.told())
    return Outcome(served, len(await services.clusters()), (*failures, *referee.violations))


async def only_one(services: Services) -> bool:
    return len(await services.clusters()) == 1


def is_ours(entry: JournalEntry) -> bool:
    """Writes about the RayService: not those that its clusters are made of."""
    about = entry.attributes
    if about.resource == CLUSTERS:
        return about.writes and about.subresource != "status"
    if about.resource == "pods":
        return about.verb == "patch"
    return about.writes and (about.resource == SERVICE or about.name.startswith(STABLE))


@measured_once
async def entries_of() -> tuple[list[JournalEntry], int]:
    """All requests of the operator, and its number of events, when nothing disturbs it."""
    async with a_world() as (services, referee):
        operator = services.start_operator()
        assert await play(services, referee) == EXPECTED
        return operator.transport.journal.entries, len(operator.transport.journal.events)


def sample(count: int) -> Iterator[int]:
    """Some of so many places."""
    assert count > PLACES
    yield from sorted({round(each * (count - 1) / (PLACES - 1)) for each in range(PLACES)})


@pytest.mark.slow
@pytest.mark.parametrize("applied", [False, True], ids=["request-lost", "request-applied"])
async def test_killed_at_a_write_the_end_is_the_same(applied: bool):
    entries, _ = await entries_of()
    wrong: dict[int, Outcome] = {}
    for number in sample(sum(map(is_ours, entries))):
        async with a_world() as (services, referee):
            operator = services.start_operator()
            kill_at(services, operator, number, applied=applied, ours=is_ours)
            if (outcome := await play(services, referee)) != EXPECTED:
                wrong[number] = outcome
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("fault", [LostResponse(), LostRequest()], ids=["answer", "request"])
async def test_with_an_answer_lost_the_end_is_the_same(fault: LostResponse | LostRequest):
    entries, _ = await entries_of()
    wrong: dict[int, Outcome] = {}
    ours = [
        number
        for number, entry in enumerate(each for each in entries if each.attributes.writes)
        if is_ours(entry)
    ]
    for place in sample(len(ours)):
        rule = Rule(fault, verbs=WRITES, skip=ours[place], times=1)
        if (outcome := await played([rule])) != EXPECTED:
            wrong[place] = outcome
    assert wrong == {}


@pytest.mark.slow
async def test_with_a_410_in_place_of_an_event_the_end_is_the_same():
    _, events = await entries_of()
    wrong: dict[int, Outcome] = {}
    for number in sample(events):
        if (outcome := await played([Rule(Gone(), skip=number, times=1)])) != EXPECTED:
            wrong[number] = outcome
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("resource", [SERVICE, CLUSTERS, "pods", "services", ""])
async def test_with_late_watches_the_end_is_the_same(resource: str):
    assert await played([watch_lag(resource, 10)]) == EXPECTED


async def played(rules: list[Rule]) -> Outcome:
    async with a_world() as (services, referee):
        services.start_operator(rules=rules)
        return await play(services, referee)


@pytest.mark.slow
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
async def test_with_dashboards_that_misbehave_half_of_the_time_the_end_is_the_same(fault: Fault):
    async with a_world() as (services, referee):
        services.start_operator()
        services.world.background(misbehave(services, fault))
        assert await play(services, referee) == EXPECTED


async def misbehave(services: Services, fault: Fault) -> None:
    while True:
        for each in (fault, None):
            await asyncio.sleep(30)
            services.ray.fault(each)


@pytest.mark.slow
async def test_with_dashboards_that_answer_late_the_end_is_the_same():
    async with a_world() as (services, referee):
        services.ray.latency = lambda _head: TIMEOUT - 0.1
        services.start_operator()
        assert await play(services, referee) == EXPECTED
