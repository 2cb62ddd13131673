"""RayClusters that nobody uses: they end by themselves, and one that is in use never does."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition, parse_rfc3339
from controller.kube.errors import NotFound
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.cluster import RayClusterKind
from controller.ray.dashboard.actors import DashboardActors
from tests.integration.harness import RunningOperator, World, embedded_world, example_cluster
from tests.integration.rays import Rays
from tests.ray.dashboard.simulated import NEVER, Course, Fault, incarnation

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

TIMEOUT = 600


class Idle:
    """A world with one cluster, and who uses it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rays = Rays(world)

    def start_operator(self) -> RunningOperator:
        actors = DashboardActors(
            self.rays.ray.connect,
            clock=self.world.loop,
            wall=self.world.wall,
            rng=random.Random(self.world.rng.random()),
        )
        dashboards = actors.for_controller(RayClusterKind.name)
        return self.world.start_operator(
            kind=RayClusterKind(dashboards=dashboards, external_source=dashboards)
        )

    async def create(self, *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        body = example_cluster()
        body["metadata"]["annotations"] = annotations or {}
        body["spec"] |= spec
        await self.world.user.create(RAYCLUSTERS, self.world.namespace, body)
        await self.world.eventually(self.world.is_ready)

    async def begin(self, **spec: Any) -> RunningOperator:
        """Start an operator, and create the cluster."""
        operator = self.start_operator()
        await self.create(**spec)
        return operator

    async def patch(self, **spec: Any) -> None:
        await self.world.user.merge_patch(
            RAYCLUSTERS, self.world.namespace, "example", {"spec": spec}
        )

    async def spec(self) -> dict[str, Any]:
        return (await self.world.cluster()).spec

    async def condition(self, type_: str = "Idle") -> dict[str, Any]:
        return await self.world.condition(type_)

    async def is_suspended(self) -> bool:
        return (await self.world.cluster()).status.get("state") == "suspended"

    def has_no_workers(self) -> bool:
        return not self.world.journal.workers()

    async def is_gone(self) -> bool:
        try:
            await self.world.cluster()
        except NotFound:
            return True
        return False

    def connect(self) -> None:
        self.rays.ray.connect_driver(incarnation(self.rays.head()))

    def disconnect(self) -> None:
        self.rays.ray.disconnect_driver(incarnation(self.rays.head()))

    async def events(self) -> list[str]:
        return [reason for reason, _ in await self.world.events_about("RayCluster", "example")]


@pytest.fixture
async def idle(world: World) -> Idle:
    return Idle(world)


def options(policy: str = "Suspend", timeout: int = TIMEOUT) -> dict[str, Any]:
    return {"idleTerminationOptions": {"timeoutSeconds": timeout, "policy": policy}}


async def test_a_cluster_that_nobody_uses_is_suspended_after_the_timeout_and_not_before(idle: Idle):
    await idle.begin(**options())
    idle.connect()
    await idle.world.settle(100)
    assert (await idle.condition())["reason"] == "InUse"
    idle.disconnect()
    ended = idle.world.wall()
    await idle.world.settle(60)
    condition = await idle.condition()
    assert (condition["status"], condition["reason"]) == ("True", "Unused")
    since = parse_rfc3339(condition["lastTransitionTime"])
    assert abs((since - ended).total_seconds()) <= 1, "Ray's time counts, not ours"
    await idle.world.settle(TIMEOUT - 65)
    assert len(idle.world.journal.present) == 3
    await idle.world.eventually(idle.is_suspended, seconds=60)
    assert (await idle.spec())["idleSuspend"] is True
    assert "suspend" not in await idle.spec(), "Kueue's field is left alone"
    condition = await idle.condition()
    assert (condition["status"], condition["reason"]) == ("True", "Suspended")
    assert "set spec.idleSuspend to false" in condition["message"]
    assert (await idle.events()).count("SuspendedIdleRayCluster") == 1


@pytest.mark.parametrize(
    "waking",
    [
        {"idleSuspend": False},
        {"suspend": False},
        {"suspend": False, "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}},
    ],
    ids=["idleSuspend", "suspend", "with an edit that needs a finalizer first"],
)
async def test_a_suspended_one_is_resumed_by_either_field_and_counts_from_then(idle: Idle, waking):
    await idle.begin(**options())
    await idle.world.eventually(idle.is_suspended, seconds=TIMEOUT + 60)
    await idle.world.settle(100)
    await idle.patch(**waking)
    await idle.world.eventually(idle.world.is_ready, seconds=120)
    await idle.world.settle(TIMEOUT - 60)
    assert len(idle.world.journal.present) == 3
    await idle.world.eventually(idle.is_suspended, seconds=120)


async def test_a_resumed_cluster_is_not_called_suspended_while_its_head_starts(idle: Idle):
    await idle.begin(**options())
    await idle.world.eventually(idle.is_suspended, seconds=TIMEOUT + 60)
    idle.rays.ray.fault(Fault.REFUSES)
    await idle.patch(idleSuspend=False)
    await idle.world.eventually(idle.world.is_ready, seconds=60)
    assert (await idle.condition())["reason"] == "NoAnswer"


async def test_an_edit_of_something_else_resumes_nothing(idle: Idle):
    await idle.begin(**options())
    await idle.world.eventually(idle.is_suspended, seconds=TIMEOUT + 60)
    await idle.world.scale(1)
    await idle.world.settle(100)
    assert await idle.is_suspended()
    assert not idle.world.journal.present


async def test_drivers_jobs_and_serve_applications_keep_a_cluster(idle: Idle):
    await idle.begin(**options())
    idle.rays.ray.add(idle.rays.head(), "waits", course=Course(pending=NEVER))
    await idle.world.settle(2 * TIMEOUT)
    assert "job waits" in (await idle.condition())["message"]
    idle.rays.ray.lose_jobs(idle.rays.head())
    serve = idle.rays.ray.serve(incarnation(idle.rays.head()))
    config = {"applications": [{"name": "llm", "import_path": "a:b"}]}
    serve.put(json.dumps(config).encode(), idle.world.loop.time())
    await idle.world.settle(2 * TIMEOUT)
    assert "Serve application llm" in (await idle.condition())["message"]
    assert not await idle.is_suspended()
    serve.put(json.dumps({"applications": []}).encode(), idle.world.loop.time())
    await idle.world.settle(TIMEOUT - 5)
    assert not await idle.is_suspended(), "the timeout begins when the application has gone"
    await idle.world.eventually(idle.is_suspended, seconds=120)


@pytest.mark.parametrize("fault", [Fault.REFUSES, Fault.SILENT, Fault.ERROR, Fault.HTML])
async def test_no_answer_is_no_idleness(idle: Idle, fault):
    await idle.begin(**options())
    await idle.world.settle(TIMEOUT / 2)
    idle.rays.ray.fault(fault)
    await idle.world.settle(3 * TIMEOUT)
    condition = await idle.condition()
    assert (condition["status"], condition["reason"]) == ("Unknown", "NoAnswer")
    assert not await idle.is_suspended()
    idle.rays.ray.fault(None)
    await idle.world.settle(60)
    assert not await idle.is_suspended(), "what happened while Ray was silent is not known"


async def test_a_serve_controller_that_does_not_answer_in_time_is_no_absence_of_serve(idle: Idle):
    await idle.begin(**options())
    serve = idle.rays.ray.serve(incarnation(idle.rays.head()))
    config = {"applications": [{"name": "llm", "import_path": "a:b"}]}
    serve.put(json.dumps(config).encode(), idle.world.loop.time())
    idle.rays.ray.fault(Fault.NO_CONTROLLER)
    await idle.world.settle(3 * TIMEOUT)
    assert (await idle.condition())["status"] == "Unknown"
    assert not await idle.is_suspended()


async def test_a_user_who_comes_back_in_the_last_second_keeps_the_cluster(idle: Idle):
    await idle.begin(**options())
    idle.connect()
    idle.disconnect()
    await idle.world.settle(TIMEOUT - 1)
    idle.connect()
    await idle.world.settle(2 * TIMEOUT)
    assert (await idle.condition())["status"] == "False"
    assert len(idle.world.journal.present) == 3


async def test_a_new_operator_goes_on_with_the_time_that_has_passed(idle: Idle):
    operator = await idle.begin(**options())
    await idle.world.settle(60)
    since = (await idle.condition())["lastTransitionTime"]
    await idle.world.settle(TIMEOUT - 100)
    await operator.kill()
    idle.start_operator()
    await idle.world.settle(20)
    assert (await idle.condition())["lastTransitionTime"] == since
    await idle.world.eventually(idle.is_suspended, seconds=60)


async def test_a_deletion_is_announced_and_is_called_off_by_a_user(idle: Idle):
    await idle.begin(**options("Delete"))
    await idle.world.settle(TIMEOUT - 40)
    announced = await idle.condition("IdleDeletionAnnounced")
    assert "it is deleted at " in announced["message"]
    assert (await idle.events()).count("IdleDeletionAnnounced") == 1
    idle.connect()
    await idle.world.settle(TIMEOUT)
    assert not (await idle.condition("IdleDeletionAnnounced"))["status"]
    idle.disconnect()
    await idle.world.settle(TIMEOUT - 5)
    assert not await idle.is_gone()
    await idle.world.eventually(idle.is_gone, seconds=120)
    assert "DeletedIdleRayCluster" in await idle.events()


async def test_an_operator_that_was_away_announces_before_it_deletes(idle: Idle):
    operator = await idle.begin(**options("Delete"))
    await idle.world.settle(30)
    await operator.kill()
    await idle.world.settle(2 * TIMEOUT)
    idle.start_operator()
    await idle.world.settle(50)
    assert await idle.condition("IdleDeletionAnnounced")
    assert not await idle.is_gone()
    await idle.world.eventually(idle.is_gone, seconds=120)


async def test_workers_are_scaled_to_their_minimum_once_and_the_head_stays(idle: Idle):
    await idle.begin(**options("ScaleToMinimum"))
    await idle.world.eventually(lambda: len(idle.world.journal.present) == 1, seconds=TIMEOUT + 90)
    assert (await idle.spec())["workerGroupSpecs"][0]["replicas"] == 0
    await idle.world.settle(TIMEOUT)
    assert (await idle.events()).count("ScaledDownIdleRayCluster") == 1
    condition = await idle.condition()
    assert (condition["reason"], condition["status"]) == ("AtMinimum", "True")
    assert "all groups have their minReplicas" in condition["message"]


async def test_who_scales_an_unused_cluster_up_again_has_the_whole_timeout(idle: Idle):
    await idle.begin(**options("ScaleToMinimum"))
    workers = idle.world.journal.workers
    await idle.world.eventually(lambda: not workers(), seconds=TIMEOUT + 90)
    await idle.world.settle(TIMEOUT)
    await idle.world.scale(2)
    await idle.world.settle(TIMEOUT - 10)
    assert len(workers()) == 2
    await idle.world.eventually(lambda: not workers(), seconds=120)


async def test_annotations_say_the_same_where_a_definition_drops_the_fields(idle: Idle):
    idle.start_operator()
    text = json.dumps({"timeoutSeconds": TIMEOUT, "policy": "Suspend"})
    await idle.create(annotations={"manta.dev/idle-termination": text})
    await idle.world.eventually(idle.is_suspended, seconds=TIMEOUT + 60)
    meta = (await idle.world.cluster()).metadata
    assert (meta.annotations or {})["manta.dev/idle-suspend"] == "true"
    assert "idleSuspend" not in await idle.spec()
    await idle.patch(suspend=False)
    await idle.world.eventually(idle.world.is_ready, seconds=60)


async def test_what_is_wrong_in_the_annotation_is_told_with_a_remedy(idle: Idle):
    idle.start_operator()
    body = example_cluster()
    body["metadata"]["annotations"] = {"manta.dev/idle-termination": '{"timeout": 5}'}
    await idle.world.user.create(RAYCLUSTERS, idle.world.namespace, body)
    await idle.world.settle(5)
    message = (await idle.condition("Ready"))["message"]
    assert "metadata.annotations[manta.dev/idle-termination]" in message
    assert '"timeoutSeconds": 3600' in message


@pytest.mark.parametrize("applied", [True, False], ids=["answer-lost", "request-lost"])
@pytest.mark.parametrize("policy", ["Suspend", "Delete", "ScaleToMinimum"])
async def test_killed_at_every_write_it_ends_once_and_never_while_in_use(
    idle: Idle, policy, applied
):
    deaths = kill_at_each_write(idle, applied=applied)
    await idle.create(**options(policy))
    idle.connect()
    await idle.world.settle(TIMEOUT)
    assert len(idle.world.journal.present) == 3
    idle.disconnect()
    await idle.world.settle(TIMEOUT - 5)
    assert not any(pod.metadata.terminating for pod in idle.world.journal.present.values())
    ends = {"Suspend": idle.is_suspended, "Delete": idle.is_gone}
    await idle.world.eventually(ends.get(policy, idle.has_no_workers), seconds=1200)
    assert len(deaths) > 5
    assert idle.world.journal.workers_created() == 2


def kill_at_each_write(idle: Idle, *, applied: bool) -> list[Any]:
    """Kill each operator at a write, and start another one; the deaths, a growing list.

    It is the answer to its first write, or the request of its second one, that is lost.
    """
    deaths: list[Any] = []

    def watch_over(operator: RunningOperator) -> None:
        writes: list[Any] = []

        async def succeed() -> None:
            await operator.kill()
            watch_over(idle.start_operator())

        def strike(entry: Any) -> None:
            if not entry.attributes.writes or operator in deaths:
                return
            writes.append(entry)
            if len(writes) == (1 if applied else 2):  # the first must pass where nothing is lost
                deaths.append(operator)
                operator.transport.sever()
                idle.world.background(succeed())

        hooks = operator.transport.on_answer if applied else operator.transport.on_request
        hooks.append(strike)

    watch_over(idle.start_operator())
    return deaths


async def test_the_cluster_of_a_rayjob_is_left_to_its_job():
    async with embedded_world() as world:
        rays = Rays(world)
        await rays.open()
        rays.start_operator()
        body = Rays.manifest()
        body["spec"]["rayClusterSpec"] |= options(timeout=60)
        rays.ray.course = lambda _body: Course(running=NEVER)
        await world.user.create(RAYJOBS, world.namespace, body)
        await rays.reaches("Running")
        await world.settle(600)
        (name,) = await rays.clusters()
        cluster = await world.user.get(RAYCLUSTERS, world.namespace, name)
        assert "idleSuspend" not in cluster.spec
        assert find_condition(cluster.status["conditions"], "Idle") is None
        events = await world.events_about("RayCluster", name)
        assert any("has no effect on a cluster of a RayJob" in note for _, note in events)
