"""An object whose edit is held, of every kind: it costs one mark and one status, and is planned so.

An edit is held when an incomplete definition may have cut it (CTL-30). `test_cut_edits` has what
follows for each kind.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.command.kinds import KindSettings, kinds_to_plan
from controller.command.planning.planner import Planner
from controller.command.planning.text import text_of
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.resources import CRDS
from controller.ray.api import RAYJOBS, FeatureGates
from controller.ray.api.feature_gates import CLUSTER_FLEET, CRON_JOB, WORKSPACE
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.cronjob import RayCronJobKind
from controller.runtime.reconcile.definitions.cut_edits import CONFIRM_GENERATION, PRUNED_GENERATION
from tests.faults.faulty_transport import ErrorResponse, Rule
from tests.integration.definitions import drop_fields, put_in_place
from tests.integration.fleets import Fleets
from tests.integration.inferencesets import served
from tests.integration.rays import Rays
from tests.integration.rayservices import Services
from tests.integration.test_cron_jobs import create as create_cron_job
from tests.integration.test_cron_jobs import prepare
from tests.integration.test_failing_keys import MOST, TEN_MINUTES, TRACE, WRITES, requests
from tests.integration.workspaces import opened

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    from controller.kube.resources import Resource
    from tests.faults.faulty_transport import RequestFault
    from tests.integration.harness import RunningOperator, World

EVENTS = "events.events.k8s.io"
GATES = FeatureGates(dict.fromkeys((CLUSTER_FLEET, CRON_JOB, WORKSPACE), True))

pytestmark = [pytest.mark.embedded_only, pytest.mark.timeout(120)]


@dataclass(frozen=True)
class Case:
    """An object that is well, and an edit of it beside a definition that lacks a field.

    Attributes:
        resource: of the object.
        name: of the object.
        start: starts an operator and waits until the object is well.
        field: the definition lacks it.
        edit: a merge patch of another field of the specification.
        told: the condition that tells of the edit.
    """

    resource: Resource[Any]
    name: str
    start: Callable[[World], AbstractAsyncContextManager[RunningOperator]]
    field: str
    edit: dict[str, Any]
    told: str = "Ready"


@asynccontextmanager
async def a_fleet(world: World) -> AsyncGenerator[RunningOperator]:
    fleets = Fleets(world)
    operator = fleets.start_operator()
    await fleets.create(replicas=2)
    await world.settle(60)
    yield operator


@asynccontextmanager
async def a_service(world: World) -> AsyncGenerator[RunningOperator]:
    services = Services(world)
    operator = services.start_operator()
    await services.deployed()
    yield operator


@asynccontextmanager
async def a_job(world: World) -> AsyncGenerator[RunningOperator]:
    rays = Rays(world)
    await rays.open()
    operator = rays.start_operator()
    await rays.create(suspend=True, shutdownAfterJobFinishes=True)
    await rays.reaches("Suspended")
    yield operator


@asynccontextmanager
async def a_cron_job(world: World) -> AsyncGenerator[RunningOperator]:
    await prepare(world)
    operator = world.start_operator(kinds=[RayCronJobKind()])
    await create_cron_job(world, schedule="* * * * *", suspend=True)
    yield operator


@asynccontextmanager
async def a_workspace(world: World) -> AsyncGenerator[RunningOperator]:
    async with opened(world) as spaces:
        operator = spaces.start_operator()
        await spaces.create()
        await spaces.has_nodes()
        yield operator


@asynccontextmanager
async def an_inference_set(world: World) -> AsyncGenerator[RunningOperator]:
    async with served(world) as sets:
        operator = sets.start_operator()
        await sets.create(replicas=3)
        await sets.serves(3)
        yield operator


CASES = {
    "fleet": Case(
        RAYCLUSTERFLEETS, "fleet", a_fleet, "spec.replicas", {"spec": {"strategy": {"maxSurge": 2}}}
    ),
    "service": Case(
        RAYSERVICES,
        "svc",
        a_service,
        "spec.upgradeStrategy",
        {"spec": {"rayClusterDeletionDelaySeconds": 30}},
    ),
    "job": Case(RAYJOBS, "job", a_job, "spec.suspend", {"spec": {"activeDeadlineSeconds": 600}}),
    "cron job": Case(
        RAYCRONJOBS, "cron", a_cron_job, "spec.suspend", {"spec": {"successfulJobsHistoryLimit": 1}}
    ),
    "workspace": Case(
        WORKSPACES,
        "phi",
        a_workspace,
        "inference.adapters",
        {"resource": {"preferredNodes": ["node-of-mine"]}},
        "ResourceReady",
    ),
    "inference set": Case(
        INFERENCE_SETS,
        "models",
        an_inference_set,
        "spec.replicas",
        {"spec": {"labelSelector": {"matchLabels": {"apps": "models", "more": "x"}}}},
        "InferenceSetReady",
    ),
}
REFUSALS = {
    "failing": ErrorResponse(500, "InternalError", f"etcd said no, {TRACE}"),
    "busy": ErrorResponse(429, "TooManyRequests", f"later, {TRACE}", retry_after=1),
    "forbidden": ErrorResponse(403, "Forbidden", f"not by policy: {TRACE}"),
}

each_kind = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


async def hold(world: World, case: Case, operator: RunningOperator, *faults: RequestFault) -> int:
    """Have an edit held; the operator's writes of the object meet these faults from then on.

    Returns the number of requests of the operator before the edit.
    """
    await world.settle(60)
    name = str(case.resource)
    whole = await world.user.get_raw(CRDS, "", name)
    await drop_fields(world, case.field, name=name)
    await world.settle(20)
    operator.transport.rules = [Rule(fault, name, WRITES) for fault in faults]
    since = len(operator.transport.journal.entries)
    await world.user.merge_patch(case.resource, world.namespace, case.name, case.edit)
    await world.settle(20)
    await put_in_place(world, whole)
    return since


def writes(case: Case, operator: RunningOperator, since: int) -> list[str]:
    """The subresource of each write of the object; empty for the object itself."""
    asked = (each.attributes for each in operator.transport.journal.entries[since:])
    return [
        each.subresource for each in asked if each.writes and each.resource == str(case.resource)
    ]


def changes(case: Case, operator: RunningOperator, since: int) -> list[str]:
    """The writes of anything else, without events."""
    return [
        each
        for each in requests(operator, since)
        if not each.startswith("get") and each.split()[1] not in {str(case.resource), EVENTS}
    ]


async def obj_of(world: World, case: Case) -> Any:
    return await world.user.get(case.resource, world.namespace, case.name)


async def told(world: World, case: Case) -> str:
    """The reason of the condition that tells of the edit."""
    status = (await obj_of(world, case)).status
    found = find_condition(status.get("conditions", ()), case.told) or {}
    if case.resource is RAYSERVICES and found.get("reason") == "ValidationFailed":
        return found["message"].partition(":")[0]  # `Ready` has KubeRay's reasons only
    return found.get("reason", "")


@each_kind
async def test_it_is_marked_once_and_told_once_and_planned_as_held(world: World, case: Case):
    async with case.start(world) as operator:
        since = await hold(world, case, operator)
        await world.settle(TEN_MINUTES)
        assert sorted(writes(case, operator, since)) == ["", "status"]
        assert not changes(case, operator, since)
        found = await obj_of(world, case)
        generation = found.metadata.generation
        mark = found.metadata.annotations[PRUNED_GENERATION]
        assert mark.startswith(f"{generation}: {case.field}")
        assert await told(world, case) == "SpecPruned"

        kinds = kinds_to_plan(KindSettings.from_environment(GATES))
        plans = await Planner(world.user, kinds, world.wall()).for_existing(world.namespace)
        [plan] = [
            each for each in plans if (each.kind, each.name) == (case.resource.kind, case.name)
        ]
        assert plan.is_held
        assert not plan.items
        summary, problem, *_ = [text for _, text in text_of(plan)]
        assert summary.endswith("is held; nothing follows from its specification")
        assert f"{CONFIRM_GENERATION}={generation}" in problem


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("sort", REFUSALS)
async def test_a_mark_that_is_refused_for_ever_costs_few_requests_and_nothing_follows(
    world: World, case: Case, sort: str
):
    async with case.start(world) as operator:
        before = await hold(world, case, operator, REFUSALS[sort])
        await world.settle(5)
        since = len(operator.transport.journal.entries)
        await world.settle(TEN_MINUTES)
        assert 0 < len(writes(case, operator, since)) <= MOST
        assert "status" not in writes(case, operator, before)
        assert not changes(case, operator, before)
        events = await world.events_about(case.resource.kind, case.name)
        assert [reason for reason, _ in events].count("FailedUpdate") == 1

        operator.transport.rules = []
        since = len(operator.transport.journal.entries)
        await world.settle(120)
        assert sorted(writes(case, operator, since)) == ["", "status"]
        assert await told(world, case) == "SpecPruned"
