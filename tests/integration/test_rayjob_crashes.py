"""Crash at every write about a RayJob, lose every answer: the same attempts, the same counts.

The scenario is one job whose first attempt fails and whose second succeeds, after which its cluster
is deleted. It is played once to count the writes, then once for each of them with a fault there.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from controller.ray.dashboard import JobStatus
from tests.faults.faulty_transport import LostRequest, LostResponse, Rule, watch_lag
from tests.integration.harness import embedded_world
from tests.integration.measuring import measured_once
from tests.integration.rays import Rays
from tests.integration.test_crashes import SHARDS, in_shards
from tests.ray.dashboard.simulated import Course

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.faults.faulty_transport import JournalEntry
    from tests.integration.harness import RunningOperator
    from tests.integration.rayservices import Services

pytestmark = [
    pytest.mark.embedded_only,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("silence"),
]

MODES = ["HTTPMode", "K8sJobMode"]


@dataclass(frozen=True, slots=True)
class Outcome:
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
    """The scenario, its operator running already."""
    results = iter([JobStatus.FAILED, *[JobStatus.SUCCEEDED] * 9])
    rays.ray.course = lambda _body: Course(running=5, result=next(results))
    await rays.create(submissionMode=mode, backoffLimit=2, shutdownAfterJobFinishes=True)
    status = await rays.reaches("Complete", seconds=900)

    async def cleaned_up() -> bool:
        return await rays.clusters() == []

    await rays.world.eventually(cleaned_up, seconds=200, pause=1)
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


@measured_once
async def entries_of(mode: str) -> list[JournalEntry]:
    """All requests of the operator when nothing disturbs it."""
    async with a_world() as rays:
        operator = rays.start_operator()
        assert await play(rays, mode) == EXPECTED
        return operator.transport.journal.entries


def kill_at(
    rays: Rays | Services,
    operator: RunningOperator,
    number: int,
    *,
    applied: bool,
    ours: Callable[[JournalEntry], bool] = is_ours,
) -> None:
    """Kill the operator at its n-th write of ours and start another one."""
    seen = 0
    killed = False

    async def restart() -> None:
        await operator.kill()
        rays.start_operator()

    def strike(entry: JournalEntry) -> None:
        nonlocal seen, killed
        if killed or not ours(entry):
            return
        seen += 1
        if seen > number:
            killed = True
            operator.transport.sever()
            rays.world.background(restart())

    hooks = operator.transport.on_answer if applied else operator.transport.on_request
    hooks.append(strike)


@pytest.mark.slow
@pytest.mark.parametrize("applied", [False, True], ids=["request-lost", "request-applied"])
@in_shards
async def test_killed_at_any_single_write_a_job_has_the_same_attempts(applied: bool, shard: int):
    wrong: dict[int, Outcome] = {}
    writes = sum(map(is_ours, await entries_of("HTTPMode")))
    for number in range(shard, writes, SHARDS):
        async with a_world() as rays:
            kill_at(rays, rays.start_operator(), number, applied=applied)
            outcome = await play(rays, "HTTPMode")
            if applied:  # an event is lost with the operator that was about to tell it
                outcome = replace(outcome, retries_told=1)
            if outcome != EXPECTED:
                wrong[number] = outcome
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("fault", [LostResponse(), LostRequest()], ids=["answer", "request"])
@pytest.mark.parametrize("resource", ["rayjobs.ray.io", "rayclusters.ray.io", "jobs.batch"])
async def test_with_any_single_answer_lost_a_job_has_the_same_attempts(
    resource: str, fault: LostResponse | LostRequest
):
    verbs = frozenset({"create", "delete"} if resource != "rayjobs.ray.io" else {"patch"})

    def meant(entry: JournalEntry) -> bool:
        return entry.attributes.resource == resource and entry.attributes.verb in verbs

    wrong: dict[int, Outcome] = {}
    for number in range(sum(map(meant, await entries_of("K8sJobMode")))):
        async with a_world() as rays:
            rays.start_operator(rules=[Rule(fault, resource, verbs, skip=number, times=1)])
            outcome = replace(await play(rays, "K8sJobMode"), retries_told=1)
            if outcome != EXPECTED:
                wrong[number] = outcome
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("resource", ["rayjobs.ray.io", "rayclusters.ray.io", "pods", "jobs.batch"])
async def test_with_late_watches_a_job_has_the_same_attempts(mode: str, resource: str):
    async with a_world() as rays:
        rays.start_operator(rules=[watch_lag(resource, 10)])
        assert await play(rays, mode) == EXPECTED
