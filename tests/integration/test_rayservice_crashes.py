"""Crash at every write about a RayService, lose every answer: the same end, and no failed request.

There are two scenarios, one for each strategy of upgrades; see `replace_at_once` and
`move_step_by_step`. Each is played once undisturbed; at each write, or event, a forked process goes
on with a fault in that place. A client asks all the while, and the referee checks the invariants
after every transition of the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Struct

from controller.ray.dashboard.client import TIMEOUT
from controller.testing.faults import Gone, JournalEntry, watch_lag
from tests.fakes.gateways import SimulatedListeners, install_gateway_api, simulated_gateways
from tests.integration.forks import InEachFork
from tests.integration.harness import embedded_world
from tests.integration.incremental import incremental_manifest, third, watched, with_resources
from tests.integration.rayservices import (
    Services,
    asked,
    serve_config,
    service_manifest,
    with_image,
)
from tests.integration.steady_referee import SteadyReferee
from tests.integration.sweeps import Disturbance, Kill, Sweep, at_each_fault, shards, writes
from tests.integration.turns import in_turn
from tests.ray.dashboard.simulated import Fault

pytestmark = [
    pytest.mark.slow,
    pytest.mark.embedded_only,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("silence"),
]

NEW_IMAGE = "rayproject/ray:2.53.0"
SERVICE, CLUSTERS = "rayservices.ray.io", "rayclusters.ray.io"
ROUTING = {"gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io"}
PATIENCE = 900.0
"""Seconds for one step, faults included."""


class Outcome(Struct, frozen=True):
    """How a scenario ends."""

    served: tuple[tuple[str, ...], ...]
    clusters_left: int = 1
    wrong: tuple[str, ...] = ()


class Stage(Struct, frozen=True):
    services: Services
    listeners: SimulatedListeners
    referee: SteadyReferee

    async def outcome(self, *failures: str) -> Outcome:
        """What there is a while after the last edit took effect."""
        services = self.services
        await services.world.eventually(self._only_one, seconds=PATIENCE, pause=1)
        await services.world.settle(20)
        assert await services.is_ready()
        for uid, puts in services.puts():
            self.referee.check_puts(uid, puts)
        served = tuple(tuple(dict.fromkeys(each)) for each in services.told())
        wrong = (*failures, *self.referee.violations)
        return Outcome(served, len(await services.clusters()), wrong)

    async def _only_one(self) -> bool:
        return len(await self.services.clusters()) == 1


class Scenario(Struct, frozen=True):
    """What the user does while the operator runs, and how it ends."""

    play: Callable[[Stage], Awaitable[Outcome]]
    expected: Outcome


async def replace_at_once(stage: Stage) -> Outcome:
    """Image and config are edited together, and the config again when the new cluster serves."""
    services = stage.services
    manifest = service_manifest(
        serveConfigV2=serve_config("first"), rayClusterDeletionDelaySeconds=5
    )
    old = await services.deployed(manifest, seconds=PATIENCE)
    failures: list[str] = []
    async with asked(services, failures):
        edited = with_image(manifest, NEW_IMAGE)
        edited["spec"]["serveConfigV2"] = serve_config("second")
        await services.edit(edited)
        await services.taken_over(old, seconds=PATIENCE)
        edited["spec"]["serveConfigV2"] = serve_config("third")
        await services.edit(edited)
        await services.world.eventually(
            lambda: services.told()[-1][-1] == "third", seconds=PATIENCE
        )
        return await stage.outcome(*failures)


async def move_step_by_step(stage: Stage) -> Outcome:
    """An upgrade is reverted when half of the requests have moved; then another one completes."""
    services = stage.services
    manifest = incremental_manifest(maxSurgePercent=50, stepSizePercent=50, intervalSeconds=5)
    manifest["spec"]["rayClusterDeletionDelaySeconds"] = 5
    old = await services.deployed(manifest, seconds=PATIENCE)
    async with watched(services, stage.listeners) as upgrades:
        await services.edit(with_resources(manifest, replicas=4))
        await services.reaches(has_moved_half, seconds=PATIENCE)
        await services.edit(manifest)
        await services.reaches(lambda s: not s.get("pendingServiceStatus"), seconds=PATIENCE)
        await services.edit(third(manifest))
        await services.taken_over(old, seconds=PATIENCE)
        return await stage.outcome(*upgrades.unanswered)


def has_moved_half(status: dict[str, Any]) -> bool:
    return (status.get("pendingServiceStatus") or {}).get("trafficRoutedPercent", 0) >= 50


AT_ONCE = Scenario(replace_at_once, Outcome((("first",), ("second", "third"))))
STEP_BY_STEP = Scenario(move_step_by_step, Outcome((("hi",), ("hello",), ("third",))))

SCENARIOS = {"at-once": AT_ONCE, "step-by-step": STEP_BY_STEP}
either_strategy = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)


SHARDS = 16
in_shards = shards(SHARDS)


@asynccontextmanager
async def a_stage() -> AsyncIterator[Stage]:
    async with embedded_world() as world:
        await install_gateway_api(world)
        services = Services(world)
        referee = SteadyReferee(lambda name: services.serve_of(name).ready(world.loop.time()))
        assert world.server is not None
        world.server.on_write.append(referee)
        async with simulated_gateways(world) as listeners:
            yield Stage(services, listeners, referee)


def is_ours(entry: JournalEntry) -> bool:
    """Writes about the RayService: not those that its clusters are made of."""
    about = entry.attributes
    if about.resource == CLUSTERS:
        return about.writes and about.subresource != "status"
    if about.resource == "pods":
        return about.verb == "patch"
    ours = about.resource in {SERVICE, *ROUTING} or about.name.endswith(("-head-svc", "-serve-svc"))
    return about.writes and ours


@at_each_fault
@either_strategy
@in_shards
async def test_disturbed_at_any_single_write_the_end_is_the_same(
    scenario: Scenario, fault: Disturbance, shard: int
):
    sweep = Sweep[Outcome](shard, SHARDS)
    async with a_stage() as stage:
        world, start = stage.services.world, stage.services.start_operator
        ours = is_ours if isinstance(fault, Kill) else writes
        sweep.disturb(fault, world, start(), ours=ours, again=start)
        await sweep.comes_to(scenario.expected, scenario.play(stage), more_than=32)


@either_strategy
@in_shards
async def test_with_a_410_in_place_of_any_single_event_the_end_is_the_same(
    scenario: Scenario, shard: int
):
    sweep = Sweep[Outcome](shard, SHARDS)
    async with a_stage() as stage:
        stage.services.start_operator(rules=[InEachFork(Gone(), strikes=sweep.strikes)])
        await sweep.comes_to(scenario.expected, scenario.play(stage), more_than=64)


@pytest.mark.parametrize(
    ("scenario", "resource"),
    in_turn(SCENARIOS.values(), [SERVICE, CLUSTERS, "pods", "services", ""]),
)
async def test_with_late_watches_the_end_is_the_same(scenario: Scenario, resource: str):
    async with a_stage() as stage:
        stage.services.start_operator(rules=[watch_lag(resource, 10)])
        assert await scenario.play(stage) == scenario.expected


@pytest.mark.parametrize(("scenario", "fault"), in_turn(SCENARIOS.values(), Fault))
async def test_with_dashboards_that_misbehave_half_of_the_time_the_end_is_the_same(
    scenario: Scenario, fault: Fault
):
    async with a_stage() as stage:
        stage.services.start_operator()
        stage.services.world.background(misbehave(stage.services, fault))
        assert await scenario.play(stage) == scenario.expected


async def misbehave(services: Services, fault: Fault) -> None:
    while True:
        for each in (fault, None):
            await asyncio.sleep(30)
            services.ray.fault(each)


@either_strategy
async def test_with_dashboards_that_answer_late_the_end_is_the_same(scenario: Scenario):
    async with a_stage() as stage:
        stage.services.ray.latency = lambda _head: TIMEOUT - 0.1
        stage.services.start_operator()
        assert await scenario.play(stage) == scenario.expected
