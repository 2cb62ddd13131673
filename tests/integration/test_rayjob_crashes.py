"""Crash at every write about a RayJob, lose every answer: the same attempts, the same counts.

The scenario is one job whose first attempt fails and whose second succeeds, after which its cluster
is deleted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import Struct
from msgspec.structs import replace

from controller.ray.dashboard.responses import JobStatus
from controller.testing.faults import JournalEntry, watch_lag
from tests.integration.harness import embedded_world
from tests.integration.rays import Rays
from tests.integration.sweeps import Disturbance, Kill, Sweep, at_each_fault, shards
from tests.ray.dashboard.simulated import Course

pytestmark = [
    pytest.mark.slow,
    pytest.mark.embedded_only,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("silence"),
]

MODES = ["HTTPMode", "K8sJobMode"]
SHARDS = 4
in_shards = shards(SHARDS)


class Outcome(Struct, frozen=True):
    state: str
    failed: int
    succeeded: int
    submissions: int
    results: tuple[str, ...]
    clusters_made: int
    clusters_left: int
    retries_told: int


EXPECTED = Outcome("Complete", 1, 1, 2, ("Failed", "Succeeded"), 2, 0, 1)


@asynccontextmanager
async def a_world() -> AsyncIterator[Rays]:
    async with embedded_world() as world:
        rays = Rays(world)
        await rays.open()
        yield rays


async def play(rays: Rays, mode: str) -> Outcome:
    results = iter([JobStatus.FAILED, *[JobStatus.SUCCEEDED] * 9])
    rays.ray.course = lambda _body: Course(running=5, result=next(results))
    await rays.create(submissionMode=mode, backoffLimit=2, shutdownAfterJobFinishes=True)
    status = await rays.reaches("Complete", seconds=900)
    await rays.world.becomes(rays.clusters, [], seconds=200, pause=1)
    await rays.world.settle(60)
    events = [reason for reason, _ in await rays.events()]
    heads = {
        (pod.metadata.labels or {})["ray.io/cluster"]
        for pod in rays.world.journal.created.values()
        if (pod.metadata.labels or {}).get("ray.io/node-type") == "head"
    }
    return Outcome(
        await rays.state(),
        status.get("failed", 0),
        status.get("succeeded", 0),
        rays.ray.submissions(),
        tuple(each["result"] for each in status["attempts"]),
        len(heads),
        len(await rays.clusters()),
        min(1, events.count("RetryingRayJob")),
    )


def is_ours(entry: JournalEntry) -> bool:
    """Writes to RayJobs and Jobs, creations and deletions of clusters: not the cluster's status."""
    about = entry.attributes
    if about.resource == "rayclusters.ray.io":
        return about.verb in {"create", "delete"}
    return about.writes and about.resource in {"rayjobs.ray.io", "jobs.batch"}


def but_for_events(outcome: Outcome | str) -> Outcome | str:
    """The outcome without what was told: an event may be lost with its answer or its operator."""
    return replace(outcome, retries_told=1) if isinstance(outcome, Outcome) else outcome


@at_each_fault
@pytest.mark.parametrize("mode", MODES)
@in_shards
async def test_disturbed_at_any_single_write_a_job_has_the_same_attempts(
    fault: Disturbance, mode: str, shard: int
):
    sweep = Sweep[Outcome](shard, SHARDS)
    async with a_world() as rays:
        operator, again = rays.start_operator(), rays.start_operator
        sweep.disturb(fault, rays.world, operator, ours=is_ours, again=again)
        assert await sweep.play(play(rays, mode)) == EXPECTED
    assert sweep.places > 1
    if fault != Kill(applied=False):
        sweep.outcomes = {at: but_for_events(each) for at, each in sweep.outcomes.items()}
    assert sweep.all_but(EXPECTED) == {}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("resource", ["rayjobs.ray.io", "rayclusters.ray.io", "pods", "jobs.batch"])
async def test_with_late_watches_a_job_has_the_same_attempts(mode: str, resource: str):
    async with a_world() as rays:
        rays.start_operator(rules=[watch_lag(resource, 10)])
        assert await play(rays, mode) == EXPECTED
