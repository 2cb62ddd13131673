"""RayCronJobs on an API server, in virtual time: one RayJob a tick, whatever goes wrong.

Nobody runs the RayJobs here; where a test needs one to end, its user says so in the status.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from controller.apimachinery.conditions import parse_rfc3339
from controller.kube.errors import NotFound, PathNotFound
from controller.ray.api.definitions import ray_definition
from controller.ray.api.raycronjob import RAYCRONJOBS, RayCronJob
from controller.ray.api.rayjob import RAYJOBS, RayJob
from controller.ray.cronjob import RayCronJobKind
from controller.testing.faults import Lag, Rule
from tests.integration.definitions import put_in_place
from tests.integration.harness import (
    RunningOperator,
    World,
    embedded_world,
    example_cluster,
    install_crds,
)
from tests.integration.sweeps import Disturbance, Sweep, at_each_fault
from tests.samples import THEIR_CRDS

embedded_only = pytest.mark.embedded_only

Outcome = tuple[list[str], str, list[str]]
"""Names of the RayJobs that were created, the last tick of the status, and names that are left."""


async def prepare(world: World) -> None:
    await install_crds(world, ray_definition("RayCronJob"), ray_definition("RayJob"))
    await world.eventually(lambda: served(world))


async def served(world: World) -> bool:
    try:
        await world.user.list(RAYCRONJOBS, world.namespace, limit=1)
        await world.user.list(RAYJOBS, world.namespace, limit=1)
    except (NotFound, PathNotFound):
        return False
    return True


def start(world: World, *rules: Rule) -> RunningOperator:
    return world.start_operator(kinds=[RayCronJobKind()], rules=rules)


async def create(world: World, name: str = "cron", **spec: Any) -> RayCronJob:
    template = {"entrypoint": "python job.py", "rayClusterSpec": example_cluster()["spec"]}
    body = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": name},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": template} | spec,
    }
    return await world.user.create(RAYCRONJOBS, world.namespace, body)


async def cron(world: World, name: str = "cron") -> RayCronJob:
    return await world.user.get(RAYCRONJOBS, world.namespace, name)


async def jobs(world: World) -> list[RayJob]:
    found = await world.user.list(RAYJOBS, world.namespace)
    return sorted(found.items, key=lambda job: job.metadata.name)


async def names(world: World) -> list[str]:
    return [job.metadata.name for job in await jobs(world)]


async def end(world: World, name: str, deployment: str = "Complete") -> None:
    status = {
        "jobDeploymentStatus": deployment,
        "jobStatus": "SUCCEEDED" if deployment == "Complete" else "FAILED",
        "endTime": world.wall().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    patch = {"status": status}
    await world.user.merge_patch(RAYJOBS, world.namespace, name, patch, subresource="status")


async def reason(world: World) -> str:
    status = (await cron(world)).status
    found = [each for each in status.get("conditions", ()) if each["type"] == "Ready"]
    return found[0]["reason"] if found else ""


def at(minutes: float) -> datetime:
    """So many minutes after the world began."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)


def name_at(minutes: int, cron_name: str = "cron") -> str:
    return f"{cron_name}-{int(at(minutes).timestamp()) // 60}"


async def sleep_until(world: World, minutes: float) -> None:
    await world.settle((at(minutes) - world.wall()).total_seconds())


def requests(operator: RunningOperator) -> dict[tuple[str, str], int]:
    """Requests so far, by verb and resource, without watches, events and published schemas."""
    counts: dict[tuple[str, str], int] = {}
    for entry in operator.transport.journal.entries:
        verb, resource = entry.attributes.verb, entry.attributes.resource
        if verb != "watch" and resource and not resource.startswith("events"):
            counts[verb, resource] = counts.get((verb, resource), 0) + 1
    return counts


@embedded_only
async def test_each_tick_makes_one_rayjob_in_its_second_with_two_requests(world: World):
    await prepare(world)
    operator = start(world)
    await create(world)
    await sleep_until(world, 4)
    before = requests(operator)
    await sleep_until(world, 32)
    made = await jobs(world)
    assert [job.metadata.name for job in made] == [name_at(5 * n) for n in range(1, 7)]
    for number, job in enumerate(made, 1):
        born = parse_rfc3339(job.metadata.creation_timestamp or "")
        assert timedelta(0) <= born - at(5 * number) < timedelta(seconds=1)
        assert job.metadata.controller is not None
        assert job.metadata.controller.name == "cron"
        assert (job.metadata.labels or {})["ray.io/cronjob-name"] == "cron"
    status = (await cron(world)).status
    assert status["lastScheduleTime"] == "2026-01-01T00:30:00Z"
    assert len(status["active"]) == 6
    after = requests(operator)
    spent = {key: count - before.get(key, 0) for key, count in after.items()}
    assert {key: count for key, count in spent.items() if count} == {
        ("create", "rayjobs.ray.io"): 6,
        ("patch", "raycronjobs.ray.io"): 6,
    }


@pytest.mark.slow
@embedded_only
async def test_between_ticks_nothing_is_asked_and_nothing_written(world: World):
    await prepare(world)
    operator = start(world)
    await create(world, schedule="@daily")
    await sleep_until(world, 5)
    before = requests(operator)
    await sleep_until(world, 90)
    assert requests(operator) == before


@pytest.mark.slow
@embedded_only
async def test_after_an_hour_without_an_operator_one_rayjob_makes_up_for_it(world: World):
    await prepare(world)
    operator = start(world)
    await create(world)
    await sleep_until(world, 6)
    await operator.stop()
    await sleep_until(world, 63)
    start(world)
    await sleep_until(world, 64)
    assert await names(world) == [name_at(5), name_at(60)]
    await sleep_until(world, 66)
    assert await names(world) == [name_at(5), name_at(60), name_at(65)]


async def three_ticks(world: World) -> Outcome:
    """Live through three ticks; each RayJob ends soon after its own."""
    begin = 5 * (int((world.wall() - at(0)).total_seconds()) // 300 + 1)
    await sleep_until(world, begin)
    created: set[tuple[str, str]] = set()
    await create(world, successfulJobsHistoryLimit=1)
    for tick in (begin + 5, begin + 10, begin + 15):
        await sleep_until(world, tick + 2)
        created |= {(each.metadata.name, each.metadata.uid) for each in await jobs(world)}
        await end(world, name_at(tick))
    await sleep_until(world, begin + 19)
    last = (await cron(world)).status["lastScheduleTime"]
    return sorted(name for name, _ in created), last, await names(world)


@pytest.mark.slow
@embedded_only
@pytest.mark.usefixtures("silence")
@pytest.mark.timeout(600)
@at_each_fault
async def test_whatever_happens_to_a_single_write_each_tick_has_one_rayjob(fault: Disturbance):
    sweep = Sweep[Outcome]()
    async with embedded_world() as world:
        await prepare(world)
        operator = start(world, Rule(Lag(10.0), resource="rayjobs.ray.io"))
        sweep.disturb(fault, world, operator, again=lambda: start(world))
        ticks = [name_at(minutes) for minutes in (10, 15, 20)]
        expected = ticks, "2026-01-01T00:20:00Z", ticks[-1:]
        await sweep.comes_to(expected, three_ticks(world), more_than=8)


@embedded_only
async def test_forbid_and_replace_do_as_they_say(world: World):
    await prepare(world)
    start(world)
    await create(world, "patient", concurrencyPolicy="Forbid")
    await create(world, "hasty", concurrencyPolicy="Replace")
    await sleep_until(world, 12)
    assert await names(world) == [name_at(10, "hasty"), name_at(5, "patient")]
    await end(world, name_at(5, "patient"))
    await sleep_until(world, 13)
    assert name_at(10, "patient") in await names(world)


@embedded_only
async def test_history_beyond_its_limits_goes_when_a_rayjob_ends(world: World):
    await prepare(world)
    start(world)
    await create(world, successfulJobsHistoryLimit=1, failedJobsHistoryLimit=1)
    for tick, deployment in ((5, "Complete"), (10, "Failed"), (15, "Complete"), (20, "Failed")):
        await sleep_until(world, tick + 1)
        await end(world, name_at(tick), deployment)
    await sleep_until(world, 23)
    assert await names(world) == [name_at(15), name_at(20)]
    status = (await cron(world)).status
    assert status["lastSuccessfulTime"] == "2026-01-01T00:16:00Z"
    assert not status.get("active")


@pytest.mark.slow
@embedded_only
async def test_kuberays_definitions_serve_as_well(world: World):
    files = [THEIR_CRDS / f"ray.io_{plural}.yaml" for plural in ("raycronjobs", "rayjobs")]
    if not all(file.exists() for file in files):
        pytest.skip(f"SKIPPED, NOT PASSED: KubeRay's definitions are not at {THEIR_CRDS}")
    await prepare(world)
    for file in files:
        await put_in_place(world, yaml.load(file.read_text(), Loader=yaml.CSafeLoader))
    await world.settle(2.0)
    operator = start(world)
    await create(world)
    await sleep_until(world, 11)
    assert await names(world) == [name_at(5), name_at(10)]
    assert (await cron(world)).status == {"lastScheduleTime": "2026-01-01T00:10:00Z"}
    before = requests(operator)
    await sleep_until(world, 14.9)
    assert requests(operator) == before
