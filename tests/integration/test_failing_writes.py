"""A change, a deletion or a status write that fails for ever: it is named, costs little, recovers.

Creates are in `test_failing_keys`, what only RayServices write in `test_failing_rayservices`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from controller.kube.resources import SERVICES
from controller.ray.api import RAYCLUSTERS, FeatureGates
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.api.rayservice import RAYSERVICES
from tests.faults.faulty_transport import DelayedRequest, ErrorResponse, Rule
from tests.integration.rays import Rays, forever
from tests.integration.rayservices import Services, service_manifest
from tests.integration.test_all_kinds import cron_job, start
from tests.integration.test_failing_keys import (
    MOST,
    SORTS,
    TEN_MINUTES,
    TRACE,
    requests,
)
from tests.integration.test_failing_rayservices import CLUSTERS, DELETE, PATCH
from tests.ray.dashboard.simulated import Course

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controller.kube.resources import Resource
    from tests.integration.harness import RunningOperator, World

pytestmark = pytest.mark.embedded_only

WORDS = {
    "forbidden": "not by policy",
    "invalid": "Invalid value",
    "failing": "etcd said no",
    "overloaded": "try again",
    "timeout": "request timed out",
    "lost": "connection reset",
    "silent": "no complete answer",
    "busy": "later",
}
FAULTS = SORTS | {
    "timeout": ErrorResponse(504, "Timeout", f"request timed out, {TRACE}"),
    "silent": DelayedRequest(1e6),
    "busy": ErrorResponse(429, "TooManyRequests", f"later, {TRACE}", retry_after=1),
}


async def a_cluster(world: World) -> RunningOperator:
    operator = world.start_operator()
    await world.create_cluster("it")
    await world.eventually(lambda: world.is_ready("it"), seconds=60)
    return operator


async def jobs(world: World, course: Course) -> RunningOperator:
    rays = Rays(world)
    await rays.open()
    rays.ray.course = lambda _: course
    return start(rays, FeatureGates({"RayCronJob": True}))


async def a_job(world: World) -> RunningOperator:
    """One whose cluster is deleted a minute after its start."""
    operator = await jobs(world, Course(running=30))
    spec = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 5}
    body = Rays.manifest("it", **spec)
    await world.user.create(RAYJOBS, world.namespace, body)
    await world.settle(15)
    return operator


async def a_running_job(world: World) -> RunningOperator:
    operator = await jobs(world, forever())
    await world.user.create(RAYJOBS, world.namespace, Rays.manifest("it"))
    await world.settle(15)
    return operator


async def a_cron_job(world: World) -> RunningOperator:
    """With two jobs that have ended; the next one is due in months."""
    operator = await jobs(world, Course(running=5))
    body = cron_job("it", "*/5 * * * *")
    body["spec"]["jobTemplate"]["shutdownAfterJobFinishes"] = True
    await world.user.create(RAYCRONJOBS, world.namespace, body)
    await world.settle(660)
    await edit_cron_job(world, schedule="0 0 1 7 *")
    await world.settle(60)
    return operator


async def a_service(world: World) -> RunningOperator:
    services = Services(world)
    operator = services.start_operator()
    await services.create(service_manifest("it"))
    await services.reaches(lambda s: s.get("serviceStatus") == "Running", "it")
    return operator


async def aim_elsewhere(world: World) -> None:
    """As a user does who edits a Service by hand."""
    patch = {"spec": {"selector": {"ray.io/cluster": "elsewhere"}}}
    await world.user.merge_patch(SERVICES, world.namespace, "it-head-svc", patch)


async def shrink(world: World) -> None:
    await world.scale(0, "it")


async def wait(world: World) -> None:
    await world.settle(60)


async def delete_job(world: World) -> None:
    await world.user.delete(RAYJOBS, world.namespace, "it")


async def edit_cron_job(world: World, **spec: Any) -> None:
    await world.user.merge_patch(RAYCRONJOBS, world.namespace, "it", {"spec": spec})


async def keep_no_jobs(world: World) -> None:
    await edit_cron_job(world, successfulJobsHistoryLimit=0)


async def suspend_cron_job(world: World) -> None:
    await edit_cron_job(world, suspend=True)


async def suspend_service(world: World) -> None:
    patch = {"spec": {"suspend": True}}
    await world.user.merge_patch(RAYSERVICES, world.namespace, "it", patch)


@dataclass(frozen=True, slots=True)
class Row:
    """A write that fails.

    Attributes:
        kind: whose it is.
        begin: what there is before.
        provoke: makes the write due.
        resource: of the object that is written.
        verbs: of the write.
    """

    kind: Resource[Any]
    begin: Callable[[World], Awaitable[RunningOperator]]
    provoke: Callable[[World], Awaitable[None]]
    resource: str
    verbs: frozenset[str]

    @property
    def of_itself(self) -> bool:
        """Whether the object's own status and metadata cannot be written: events tell of it."""
        return self.resource == str(self.kind)


ROWS = {
    "the Service of a cluster": Row(RAYCLUSTERS, a_cluster, aim_elsewhere, "services", PATCH),
    "the pods of a cluster": Row(RAYCLUSTERS, a_cluster, shrink, "pods", DELETE),
    "a cluster": Row(RAYCLUSTERS, a_cluster, shrink, CLUSTERS, PATCH),
    "the cluster of a job": Row(RAYJOBS, a_job, wait, CLUSTERS, DELETE),
    "a job": Row(RAYJOBS, a_job, wait, "rayjobs.ray.io", PATCH),
    "a deleted job": Row(RAYJOBS, a_running_job, delete_job, "rayjobs.ray.io", PATCH),
    "the jobs of a cron job": Row(RAYCRONJOBS, a_cron_job, keep_no_jobs, "rayjobs.ray.io", DELETE),
    "a cron job": Row(RAYCRONJOBS, a_cron_job, suspend_cron_job, "raycronjobs.ray.io", PATCH),
    "a service": Row(RAYSERVICES, a_service, suspend_service, "rayservices.ray.io", PATCH),
}
QUICK = {("the Service of a cluster", "failing"), ("the cluster of a job", "failing")}


async def said(world: World, row: Row) -> str:
    """What the conditions say; about what cannot say so itself, the events."""
    if row.of_itself:
        return " ".join(note for _, note in await world.events_about(row.kind.kind, "it"))
    obj = await world.user.get(row.kind, world.namespace, "it")
    return " ".join(each["message"] for each in obj.status["conditions"])


@pytest.mark.parametrize(
    ("what", "sort"),
    [
        pytest.param(what, sort, marks=() if (what, sort) in QUICK else pytest.mark.slow)
        for what in ROWS
        for sort in WORDS
    ],
)
async def test_a_write_that_fails_for_ever_is_named_costs_little_and_is_made_once_it_can_be(
    world: World, what: str, sort: str
):
    row = ROWS[what]
    operator = await row.begin(world)
    rule = Rule(FAULTS[sort], row.resource, row.verbs, name=lambda name: name.startswith("it"))
    operator.transport.rules = [rule]
    await row.provoke(world)
    await world.settle(90 if sort == "silent" else 20)
    assert WORDS[sort] in await said(world, row)
    since = len(operator.transport.journal.entries)
    await world.settle(TEN_MINUTES)
    assert len(requests(operator, since)) <= MOST
    assert rule.seen > 5
    assert WORDS[sort] in await said(world, row)

    since = len(operator.transport.journal.entries)
    operator.transport.rules = []
    await world.settle(60)
    outcomes = [
        entry.outcome
        for entry in operator.transport.journal.entries[since:]
        if entry.attributes.verb in row.verbs and entry.attributes.resource == row.resource
    ]
    assert "200" in outcomes
    assert row.of_itself or WORDS[sort] not in await said(world, row)


async def test_several_changes_that_fail_for_ever_cost_little(world: World):
    operator = await a_service(world)
    operator.transport.rules = [Rule(SORTS["failing"], "services", PATCH)]
    since = len(operator.transport.journal.entries)
    for name in ("it-head-svc", "it-serve-svc"):
        patch = {"spec": {"selector": {"ray.io/cluster": "elsewhere"}}}
        await world.user.merge_patch(SERVICES, world.namespace, name, patch)
    await world.settle(TEN_MINUTES)
    assert len(requests(operator, since)) <= MOST
