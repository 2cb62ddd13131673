"""An object that is edited while its definition lacks fields is left as it is until its next edit.

What was dropped of the edit stays dropped: what is left asks for fewer copies, for another cluster,
for a job that is not suspended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.resources import CRDS, Resource
from controller.ray.api import RAYJOBS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.cronjob import RayCronJobKind
from tests.integration.definitions import drop_fields, put_in_place, restore_definition
from tests.integration.fleets import Fleets
from tests.integration.harness import RunningOperator, World
from tests.integration.inferencesets import served
from tests.integration.rays import Rays
from tests.integration.rayservices import Services, service_manifest
from tests.integration.test_cron_jobs import create as create_cron_job
from tests.integration.test_cron_jobs import prepare
from tests.integration.test_failing_keys import requests
from tests.integration.workspaces import opened

Started = tuple[RunningOperator, Callable[[], RunningOperator]]

EVENTS = "events.events.k8s.io"

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only, pytest.mark.timeout(180)]


@dataclass(frozen=True)
class Case:
    """An object that is well, and an edit of it beside a definition that lacks a field.

    Attributes:
        start: starts an operator and waits until the object is well; gives both, to start another.
        field: the definition lacks it.
        edit: a merge patch of another field of the specification.
        next_edit: a merge patch that puts the field back.
    """

    resource: Resource[Any]
    name: str
    start: Callable[[World], AbstractAsyncContextManager[Started]]
    field: str
    edit: dict[str, Any]
    next_edit: dict[str, Any]


@asynccontextmanager
async def a_fleet(world: World) -> AsyncGenerator[Started]:
    fleets = Fleets(world)
    operator = fleets.start_operator()
    await fleets.create(replicas=2)
    await world.settle(60)
    yield operator, fleets.start_operator


@asynccontextmanager
async def a_service(world: World) -> AsyncGenerator[Started]:
    services = Services(world)
    operator = services.start_operator()
    await services.deployed()
    yield operator, services.start_operator


@asynccontextmanager
async def a_job(world: World) -> AsyncGenerator[Started]:
    rays = Rays(world)
    await rays.open()
    operator = rays.start_operator()
    await rays.create(suspend=True, shutdownAfterJobFinishes=True)
    await rays.reaches("Suspended")
    yield operator, rays.start_operator


@asynccontextmanager
async def a_cron_job(world: World) -> AsyncGenerator[Started]:
    await prepare(world)
    start = partial(world.start_operator, kinds=[RayCronJobKind()])
    operator = start()
    await create_cron_job(world, schedule="* * * * *", suspend=True)
    yield operator, start


@asynccontextmanager
async def a_workspace(world: World) -> AsyncGenerator[Started]:
    async with opened(world) as spaces:
        operator = spaces.start_operator()
        await spaces.create()
        await spaces.has_nodes()
        yield operator, spaces.start_operator


@asynccontextmanager
async def an_inference_set(world: World) -> AsyncGenerator[Started]:
    async with served(world) as sets:
        operator = sets.start_operator()
        await sets.create(replicas=3)
        await sets.serves(3)
        yield operator, sets.start_operator


CASES = {
    "fleet": Case(
        RAYCLUSTERFLEETS,
        "fleet",
        a_fleet,
        "spec.replicas",
        {"spec": {"strategy": {"maxSurge": 2}}},
        {"spec": {"replicas": 2}},
    ),
    "service": Case(
        RAYSERVICES,
        "svc",
        a_service,
        "spec.rayClusterConfig.workerGroupSpecs",
        {"spec": {"rayClusterDeletionDelaySeconds": 0}},
        {"spec": service_manifest()["spec"]},
    ),
    "job": Case(
        RAYJOBS,
        "job",
        a_job,
        "spec.suspend",
        {"spec": {"activeDeadlineSeconds": 600}},
        {"spec": {"suspend": True}},
    ),
    "cron job": Case(
        RAYCRONJOBS,
        "cron",
        a_cron_job,
        "spec.suspend",
        {"spec": {"successfulJobsHistoryLimit": 1}},
        {"spec": {"suspend": True}},
    ),
    "workspace": Case(
        WORKSPACES,
        "phi",
        a_workspace,
        "inference.adapters",
        {"resource": {"preferredNodes": ["node-of-mine"]}},
        {"resource": {"preferredNodes": []}},
    ),
    "inference set": Case(
        INFERENCE_SETS,
        "models",
        an_inference_set,
        "spec.replicas",
        {"spec": {"labelSelector": {"matchLabels": {"apps": "models", "more": "x"}}}},
        {"spec": {"replicas": 3}},
    ),
}

each_kind = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


async def cut(world: World, case: Case, operator: RunningOperator, *, after: float = 20.0) -> None:
    """Edit the object so long after its definition has lost the field."""
    await world.settle(60)
    await drop_fields(world, case.field, name=str(case.resource))
    await world.settle(after)
    operator.transport.journal.entries.clear()
    await edit(world, case, case.edit)
    await world.settle(20)


async def edit(world: World, case: Case, patch: dict[str, Any]) -> None:
    await world.user.merge_patch(case.resource, world.namespace, case.name, patch)


def writes(operator: RunningOperator) -> list[str]:
    """What the operator wrote, but for events."""
    return [
        each
        for each in requests(operator)
        if not each.startswith("get") and each.split()[1] != EVENTS
    ]


async def notes(world: World, case: Case) -> list[str]:
    found = await world.events_about(case.resource.kind, case.name)
    return [note for reason, note in found if reason == "SpecPruned"]


@each_kind
@pytest.mark.parametrize("restarts", [False, True])
async def test_nothing_is_written_because_of_it_until_the_next_edit(
    world: World, case: Case, restarts: bool
):
    async with case.start(world) as (operator, start):
        whole = await world.user.get_raw(CRDS, "", str(case.resource))
        await cut(world, case, operator)
        if restarts:
            await operator.kill()
            operator = start()  # noqa: PLW2901
            await world.settle(20)
        await put_in_place(world, whole)
        await world.settle(300)
        assert writes(operator) == []
        [note] = await notes(world, case)
        assert case.field in note

        await edit(world, case, case.next_edit)
        await world.settle(60)
        assert f"patch {case.resource}" in writes(operator)
        assert {each.split()[0] for each in writes(operator)} == {"patch"}
        assert len(await notes(world, case)) == 1


@each_kind
async def test_an_edit_together_with_such_a_definition_creates_and_deletes_nothing(
    world: World, case: Case
):
    """The watch that is open still brings it, and the schema that was read last is complete."""
    async with case.start(world) as (operator, _):
        await cut(world, case, operator, after=0)
        await world.settle(100)
        assert {each for each in writes(operator) if not each.startswith("patch")} == set()


async def has_one(fleets: Fleets) -> bool:
    return len(await fleets.clusters()) == 1


@pytest.mark.parametrize("is_edited", [False, True])
async def test_what_nobody_has_edited_goes_on_by_itself_and_all_else_with_another_process(
    world: World, fleets: Fleets, is_edited: bool
):
    operator = fleets.start_operator()
    await fleets.create()
    await world.eventually(lambda: has_copies(fleets), seconds=900, pause=1)
    await world.settle(60)
    await drop_fields(world, "spec.replicas", name=FLEETS_CRD)
    await world.settle(60)
    if is_edited:
        await fleets.patch(strategy={"maxSurge": 2})
        await world.settle(20)
    await restore_definition(world, name=FLEETS_CRD)
    await world.settle(60)
    assert len(await fleets.clusters()) == 3
    if is_edited:
        await operator.kill()
        fleets.start_operator()
    else:
        await fleets.scale(1)
    await world.eventually(lambda: has_one(fleets), seconds=60)


FLEETS_CRD = "rayclusterfleets.manta.dev"


async def test_a_cluster_is_scaled_down_a_moment_after_the_edit(world: World):
    world.start_operator()
    await world.create_cluster(replicas=3)
    await world.eventually(world.is_ready)
    await world.settle(60)
    await world.scale(1)
    await world.settle(1.2)
    assert len(world.journal.marked) == 2


async def has_copies(fleets: Fleets) -> bool:
    return (await fleets.condition("Ready"))[0] == "True"
