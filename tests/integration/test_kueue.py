"""A real Kueue: Ray objects of a queue are admitted, preempted, evicted and resized."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS
from tests.integration.harness import (
    REAL_KUBECONFIG,
    World,
    example_cluster,
    is_ready,
    live,
    real_world,
    role,
)
from tests.integration.kueue import ELASTIC, FLAVOR, QUEUE, Queue, running_kueue
from tests.integration.rays import Rays, forever, job_manifest
from tests.integration.rayservices import Services, condition, service_manifest, with_image
from tests.lab.session import needs
from tests.ray.dashboard.simulated import Course

pytestmark = [pytest.mark.real_only, pytest.mark.timeout(300), needs("kueue", "kubectl")]


@pytest.fixture(scope="module")
def kueue() -> Iterator[None]:
    with running_kueue():
        yield


@pytest.fixture
async def queue(kueue: None) -> AsyncIterator[Queue]:
    async with real_world(REAL_KUBECONFIG) as world:
        yield Queue(world)


def queued(body: dict[str, Any]) -> dict[str, Any]:
    body["metadata"].setdefault("labels", {})[QUEUE] = "team"
    return body


async def create(world: World, body: dict[str, Any]) -> dict[str, Any]:
    created = await world.user.create(RAYCLUSTERS, world.namespace, queued(body))
    return created.spec


async def pods(world: World) -> list[dict[str, Any]]:
    found = await world.user.request_json("GET", PODS.path(world.namespace, ""))
    return [each for each in found["items"] if "ray.io/node-type" in each["metadata"]["labels"]]


async def run_on_the_flavor(world: World, count: int) -> None:
    """All pods of Ray are on nodes of the queue's flavor, and there are so many."""
    present = await pods(world)
    assert [each["spec"].get("nodeSelector") for each in present] == [FLAVOR] * count


def is_empty(world: World) -> bool:
    return not any(map(role, world.journal.present.values()))


async def is_suspended(world: World) -> bool:
    return (await world.cluster()).status.get("state") == "suspended"


async def preempted(queue: Queue, name: str) -> None:
    """Take all of the quota from the object, and wait until the other has it."""
    await queue.preempt(3)
    await queue.world.eventually(lambda: queue.is_admitted("urgent"), seconds=90)
    assert not await queue.is_admitted(name)
    await queue.world.eventually(lambda: is_empty(queue.world), seconds=60)


async def test_a_raycluster_waits_for_its_admission_and_runs_on_nodes_of_its_flavor(queue: Queue):
    world = queue.world
    await queue.open(3, stopPolicy="Hold")
    world.start_operator()
    spec = await create(world, example_cluster(replicas=2))
    assert spec["suspend"] is True
    await queue.workload("example")
    await world.settle(5)
    assert not world.journal.created
    await queue.patch(stopPolicy="None")
    await world.eventually(world.is_ready, pause=0.2)
    await run_on_the_flavor(world, 3)
    assert len(world.journal.created) == 3


@pytest.mark.parametrize("when", ["starting", "ready"])
async def test_a_preempted_raycluster_leaves_its_quota_and_comes_back(queue: Queue, when: str):
    world = queue.world
    await queue.open(3)
    world.start_operator()
    await create(world, example_cluster(replicas=2))
    if when == "ready":
        await world.eventually(world.is_ready, pause=0.2)
    else:
        await world.eventually(lambda: world.journal.created)
    await preempted(queue, "example")
    await world.eventually(lambda: is_suspended(world))
    cluster = await world.cluster()
    assert "nodeSelector" not in cluster.spec["headGroupSpec"]["template"]["spec"]
    await queue.relent()
    await world.eventually(world.is_ready, seconds=90, pause=0.2)
    await run_on_the_flavor(world, 3)
    assert world.journal.most_live_heads == 1
    assert sum(map(bool, map(role, world.journal.created.values()))) <= 6


async def test_an_evicted_raycluster_stays_away_until_it_is_activated(queue: Queue):
    world = queue.world
    await queue.open(3)
    world.start_operator()
    await create(world, example_cluster(replicas=1))
    await world.eventually(world.is_ready, pause=0.2)
    await queue.activate("example", active=False)
    await world.eventually(lambda: is_empty(world), seconds=60)
    await world.settle(5)
    assert await is_suspended(world)
    ready = find_condition((await world.cluster()).status["conditions"], "Ready")
    assert ready is not None
    assert "kueue" in ready["message"]
    await queue.activate("example", active=True)
    await world.eventually(world.is_ready, seconds=90, pause=0.2)
    await run_on_the_flavor(world, 2)
    assert len(world.journal.created) == 4


async def test_an_elastic_cluster_is_resized_beside_its_autoscaler_and_waits_for_quota(
    queue: Queue,
):
    world = queue.world
    await queue.open(3)
    world.start_operator()
    body = example_cluster(replicas=1)
    body["metadata"]["annotations"] = {ELASTIC: "true"}
    body["spec"]["enableInTreeAutoscaling"] = True
    await create(world, body)
    await world.eventually(world.is_ready, pause=0.2)
    await world.scale(2)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 2, seconds=60)
    await world.scale(4)
    await world.eventually(lambda: len(world.journal.workers()) == 4, seconds=60)

    await world.says("SchedulingGated")
    await world.settle(3)
    assert len(world.journal.ready_workers()) == 2, "there is no quota for more"
    waiting = [pod.metadata.name for pod in world.journal.workers() if not is_ready(pod)]
    path = "/spec/workerGroupSpecs/0"
    operations = [
        {"op": "replace", "path": f"{path}/replicas", "value": 2},
        {"op": "add", "path": f"{path}/scaleStrategy", "value": {"workersToDelete": waiting}},
    ]
    await world.user.json_patch(RAYCLUSTERS, world.namespace, "example", operations)
    await world.eventually(lambda: len(world.journal.workers()) == 2, seconds=60)
    await world.eventually(world.is_ready, seconds=60, pause=0.2)
    assert len(world.journal.created) == 5


def requests(spec: dict[str, Any], *, besides: str = "") -> list[dict[str, Any]]:
    """What each container of a pod asks for."""
    return [
        each["resources"].get("requests", {})
        for each in spec["containers"]
        if each["name"] != besides
    ]


async def test_a_workload_counts_the_containers_of_our_pods_but_for_the_autoscaler(queue: Queue):
    world = queue.world
    await queue.open(3)
    world.start_operator()
    body = example_cluster(replicas=1)
    body["metadata"]["annotations"] = {ELASTIC: "true"}
    body["spec"]["enableInTreeAutoscaling"] = True
    await create(world, body)
    await world.eventually(world.is_ready, pause=0.2)
    counted = {each["name"]: each for each in (await queue.workload("example"))["spec"]["podSets"]}
    assert {name: each["count"] for name, each in counted.items()} == {"head": 1, "workers": 1}
    by_role = {each["metadata"]["labels"]["ray.io/node-type"]: each for each in await pods(world)}
    head, worker = counted["head"]["template"]["spec"], counted["workers"]["template"]["spec"]
    assert requests(worker) == requests(by_role["worker"]["spec"])
    assert requests(head) == requests(by_role["head"]["spec"], besides="autoscaler")
    assert len(by_role["head"]["spec"]["containers"]) == 2


async def test_a_cluster_of_multikueue_is_left_to_another_cluster(queue: Queue):
    world = queue.world
    await queue.open_multikueue()
    world.start_operator()
    await world.becomes(queue.checks, bool)
    spec = await create(world, example_cluster(replicas=1))
    assert spec["managedBy"] == "kueue.x-k8s.io/multikueue"
    await world.settle(5)
    cluster = await world.cluster()
    assert cluster.status == {}
    assert not cluster.metadata.finalizers
    assert not world.journal.created


@pytest.fixture
async def rays(queue: Queue) -> Rays:
    rays = Rays(queue.world)
    await rays.open()
    rays.ray.course = lambda _body: forever()
    return rays


async def create_job(world: World, **spec: Any) -> None:
    body = queued(job_manifest(shutdownAfterJobFinishes=True, **spec))
    await world.user.create(RAYJOBS, world.namespace, body)


@pytest.mark.parametrize("when", ["Initializing", "Running"])
async def test_a_preempted_rayjob_leaves_its_quota_and_runs_anew(
    queue: Queue, rays: Rays, when: str
):
    world = queue.world
    await queue.open(3)
    rays.start_operator()
    await create_job(world)
    await rays.reaches(when)
    await preempted(queue, "job")
    assert await rays.state() == "Suspended"
    assert await rays.clusters() == []
    await queue.relent()
    await rays.reaches("Running", seconds=120)
    await run_on_the_flavor(world, 2)
    assert world.journal.most_live_heads == 1


async def test_a_rayjob_is_counted_with_its_submitter_and_gives_its_quota_back_at_its_end(
    queue: Queue, rays: Rays
):
    world = queue.world
    await queue.open(3)
    rays.ray.course = lambda _body: Course(running=10)
    rays.start_operator()
    await create_job(world, submissionMode="K8sJobMode")
    await rays.reaches("Running")
    counted = (await queue.workload("job"))["spec"]["podSets"]
    assert [(each["name"], each["count"]) for each in counted] == [
        ("head", 1),
        ("workers", 1),
        ("submitter", 1),
    ]
    assert sorted(map(role, world.journal.created.values())) == ["head", "submitter", "worker"]
    await rays.reaches("Complete")
    await world.becomes(lambda: queue.workloads("job"), [], seconds=60)


async def test_an_evicted_rayjob_stays_suspended_until_it_is_activated(queue: Queue, rays: Rays):
    world = queue.world
    await queue.open(3)
    rays.start_operator()
    await create_job(world)
    await rays.reaches("Running")
    await queue.activate("job", active=False)
    await rays.reaches("Suspended")
    await world.settle(5)
    assert await rays.state() == "Suspended"
    assert is_empty(world)
    await queue.activate("job", active=True)
    await rays.reaches("Running", seconds=120)


@pytest.fixture
async def services(queue: Queue) -> Services:
    return Services(queue.world)


@pytest.mark.parametrize("when", ["starting", "serving"])
async def test_a_preempted_rayservice_leaves_its_quota_and_serves_again(
    queue: Queue, services: Services, when: str
):
    world = queue.world
    await queue.open(3, stopPolicy="Hold")
    services.start_operator()
    await services.create(queued(service_manifest(rayClusterDeletionDelaySeconds=1)))
    await world.settle(5)
    assert not world.journal.created
    await queue.patch(stopPolicy="None")
    if when == "serving":
        await services.serving(seconds=90)
        await run_on_the_flavor(world, 2)
    else:
        await world.eventually(lambda: world.journal.created, seconds=60)
    await preempted(queue, "svc")
    assert condition(await services.status(), "Ready") == "False"
    await queue.relent()
    await world.eventually(lambda: queue.is_admitted("svc"), seconds=60)
    await services.serving(seconds=120)
    await world.eventually(services.is_ready, seconds=120, pause=0.2)
    await world.becomes(services.clusters, lambda found: len(found) == 1, seconds=60)
    await run_on_the_flavor(world, 2)


async def test_an_edited_rayservice_is_admitted_anew_and_needs_no_more_than_its_quota(
    queue: Queue, services: Services
):
    world = queue.world
    await queue.open(2)
    services.start_operator()
    await services.create(queued(service_manifest()))
    old = await services.serving()
    before = (await queue.workload("svc"))["metadata"]["uid"]
    edited: dict[str, Any] = {"spec": (await services.service()).spec, "metadata": {"name": "svc"}}
    await services.edit(with_image(edited, "rayproject/ray:2.53.0"))

    async def is_admitted_anew() -> bool:
        [*found] = (each["metadata"]["uid"] for each in await queue.workloads("svc"))
        return before not in found and await queue.is_admitted("svc")

    await world.eventually(is_admitted_anew, seconds=60)

    def fits() -> bool:
        return sum(map(live, world.journal.present.values())) <= 2

    await world.eventually(fits, seconds=10)  # until the operator sees the new admission

    async def serves() -> bool:
        assert fits(), "more than the quota"
        return await services.is_ready() and not await services.pending()

    await world.eventually(serves, seconds=120)
    new = await services.active()
    assert new != old
    await world.becomes(services.clusters, [new], seconds=120)
    await run_on_the_flavor(world, 2)
