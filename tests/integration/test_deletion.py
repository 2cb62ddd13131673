"""Deletion of clusters with state in Redis: the order of things, and that it always ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from controller.kube.errors import NotFound
from controller.kube.objects import Pod
from controller.kube.resources import EVENTS, JOBS, NAMESPACES, PODS
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import World, example_cluster, is_ready, live, role

FINALIZER = "ray.io/gcs-ft-redis-cleanup-finalizer"
THEIRS = "example.com/theirs"
JOB = "example-redis-cleanup"


def redis_cluster(*, timeout: int | None = None, **metadata: Any) -> dict[str, Any]:
    """The example with its state in Redis."""
    body = example_cluster(replicas=2)
    body["metadata"] |= metadata
    if timeout is not None:
        body["metadata"]["annotations"] = {"ray.io/gcs-ft-deletion-timeout": str(timeout)}
    body["spec"]["gcsFaultToleranceOptions"] = {"redisAddress": "redis:6379"}
    return body


async def ready_cluster(world: World, body: dict[str, Any] | None = None) -> None:
    await world.user.create(RAYCLUSTERS, world.namespace, body or redis_cluster())
    await world.eventually(world.is_ready)


async def delete(world: World) -> None:
    await world.user.delete(RAYCLUSTERS, world.namespace, "example")


async def exists(world: World) -> bool:
    try:
        await world.cluster()
    except NotFound:
        return False
    return True


async def is_let_go(world: World) -> bool:
    return not await exists(world)


async def finalizers(world: World) -> tuple[str, ...]:
    return (await world.cluster()).metadata.finalizers


async def patch(world: World, *operations: dict[str, Any]) -> None:
    await world.user.json_patch(RAYCLUSTERS, world.namespace, "example", operations)


async def told(world: World) -> dict[str, str]:
    """Notes of all events by reason."""
    answer = await world.user.request_json("GET", EVENTS.path(world.namespace))
    return {item["reason"]: item.get("note", "") for item in answer["items"]}


async def was_told(world: World, reason: str) -> str:
    return (await told(world)).get(reason, "")


def heads(world: World) -> list[Pod]:
    return [pod for pod in world.journal.present.values() if role(pod) == "head"]


def cleaners(world: World) -> list[Pod]:
    """Pods of the cleanup Job that ever were."""
    return [pod for pod in world.journal.created.values() if role(pod) == "redis-cleanup"]


async def spoil(world: World, **annotations: str) -> None:
    """Tell the pod of the cleanup Job what to do."""
    [pod] = await world.eventually(lambda: cleaners(world), pause=0.02)
    values = {f"sim.manta.dev/{name.replace('_', '-')}": v for name, v in annotations.items()}
    patched = {"metadata": {"annotations": values}}
    await world.user.merge_patch(PODS, world.namespace, pod.metadata.name, patched)


async def test_the_job_runs_once_after_the_head_has_gone_and_then_the_cluster_goes(world: World):
    world.start_operator()
    await ready_cluster(world)
    assert await finalizers(world) == (FINALIZER,)
    heads_then: list[int] = []
    made = world.journal.on_add

    def watch(obj: Pod, *, initial: bool) -> None:
        if role(obj) == "redis-cleanup":
            heads_then.append(len(heads(world)))
        made(obj, initial=initial)

    world.journal.on_add = watch  # the observer calls it by name
    await delete(world)
    await world.eventually(world.is_gone)

    assert heads_then == [0]
    assert len(cleaners(world)) == 1
    notes = await told(world)
    assert notes["CreatedRedisCleanupJob"] == f"Created Redis cleanup Job {world.namespace}/{JOB}"
    assert not {"ForceDeletedStuckCluster", "SkippedRedisCleanup", "RedisCleanupFailed"} & set(
        notes
    )
    await world.eventually(lambda: has_no_jobs(world))


async def has_no_jobs(world: World) -> bool:
    return not (await world.user.list(JOBS, world.namespace)).items


async def test_while_it_waits_the_object_says_for_what(world: World):
    world.start_operator()
    body = redis_cluster()
    body["spec"]["headGroupSpec"]["template"]["metadata"] = {"finalizers": [THEIRS]}
    await ready_cluster(world, body)
    await delete(world)

    await world.says("BeingDeleted", "waiting for head pod")
    assert not cleaners(world)
    await let_pods_go(world)
    await world.eventually(world.is_gone)
    assert len(cleaners(world)) == 1


async def test_a_deletion_in_the_foreground_does_not_take_the_job_with_it(world: World):
    """The garbage collector then deletes everything that has the cluster for its owner."""
    world.start_operator()
    body = redis_cluster()
    body["spec"]["workerGroupSpecs"][0]["template"]["metadata"] = {"finalizers": [THEIRS]}
    await ready_cluster(world, body)
    await world.user.delete(RAYCLUSTERS, world.namespace, "example", propagation="Foreground")
    await world.eventually(lambda: cleaners(world))
    await let_pods_go(world)  # each that goes has the collector look for more
    await world.eventually(lambda: is_let_go(world))
    assert len(cleaners(world)) == 1

    async def is_complete() -> bool:
        """The operator believes the pod, which ends before its Job is said to be complete."""
        [job] = (await world.user.list(JOBS, world.namespace)).items
        return any(c.type == "Complete" and c.status == "True" for c in job.status.conditions)

    await world.eventually(is_complete)


async def let_pods_go(world: World) -> None:
    present = [pod.metadata for pod in world.journal.present.values()]
    held = [meta for meta in present if THEIRS in meta.finalizers]
    for meta in held:
        patched = {"metadata": {"finalizers": None}}
        await world.user.merge_patch(PODS, world.namespace, meta.name, patched)


async def test_a_job_that_fails_lets_the_cluster_go_and_says_so(world: World):
    world.start_operator()
    await ready_cluster(world)
    await delete(world)
    await spoil(world, outcome="crash")
    await world.eventually(world.is_gone)
    assert JOB in await world.eventually(lambda: was_told(world, "RedisCleanupFailed"))


async def test_a_head_that_never_goes_is_left_behind_at_the_deadline(world: World):
    world.start_operator()
    body = redis_cluster(timeout=4)
    body["spec"]["headGroupSpec"]["template"]["metadata"] = {"finalizers": [THEIRS]}
    await ready_cluster(world, body)
    [head] = heads(world)
    await delete(world)
    await world.settle(1)
    assert await exists(world)
    await world.eventually(lambda: is_let_go(world), seconds=10)
    note = await world.eventually(lambda: was_told(world, "ForceDeletedStuckCluster"))
    assert head.metadata.name in note
    await let_pods_go(world)


async def test_a_job_that_hangs_is_left_behind_at_the_deadline(world: World):
    world.start_operator()
    await ready_cluster(world, redis_cluster(timeout=8))
    await delete(world)
    await spoil(world, outcome="run")
    await world.eventually(lambda: is_let_go(world), seconds=15)
    assert JOB in await world.eventually(lambda: was_told(world, "ForceDeletedStuckCluster"))


async def test_a_job_that_is_refused_does_not_put_off_the_deadline(world: World):
    refused = ErrorResponse(403, "Forbidden", "jobs are not allowed here")
    rules = [Rule(refused, resource="jobs.batch", verbs=frozenset({"create"}))]
    world.start_operator(rules=rules)
    await ready_cluster(world, redis_cluster(timeout=13))
    await delete(world)
    note = await world.eventually(lambda: was_told(world, "FailedToCreateRedisCleanupJob"))
    assert "jobs are not allowed here" in note
    await world.eventually(lambda: is_let_go(world), seconds=15)
    note = await world.eventually(lambda: was_told(world, "ForceDeletedStuckCluster"))
    assert "jobs are not allowed here" in note


async def test_the_deadline_passes_also_while_no_operator_runs(world: World):
    first = world.start_operator()
    await ready_cluster(world, redis_cluster(timeout=2))
    await first.stop()
    await delete(world)
    await world.settle(3)
    assert await exists(world)
    world.start_operator()
    await world.eventually(lambda: is_let_go(world), seconds=10)


@contextmanager
def elsewhere(world: World, namespace: str) -> Iterator[None]:
    """Let user and operator live in another namespace for a while."""
    home, world.namespace = world.namespace, namespace
    try:
        yield
    finally:
        world.namespace = home


@pytest.mark.vital
async def test_a_cluster_in_a_deleted_namespace_is_let_go_at_once(world: World):
    name = f"{world.namespace}-short-lived"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await world.user.create(NAMESPACES, "", namespace)

    async def is_gone() -> bool:
        try:
            await world.user.get(NAMESPACES, "", name)
        except NotFound:
            return True
        return False

    with elsewhere(world, name):
        operator = world.start_operator()
        await ready_cluster(world)
        await world.user.delete(NAMESPACES, "", name)
        await world.eventually(lambda: is_let_go(world), seconds=30)
        await operator.stop()
    await world.eventually(is_gone, seconds=60)
    assert not cleaners(world)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [None, {"backend": "rocksdb"}, {"redisAddress": 5}],
    ids=["removed", "rocksdb", "malformed"],
)
async def test_a_specification_that_changed_meanwhile_keeps_nothing(
    world: World, options: dict[str, Any] | None
):
    first = world.start_operator()
    await ready_cluster(world)
    await first.stop()
    path = "/spec/gcsFaultToleranceOptions"
    change = {"op": "replace", "path": path, "value": options} if options else None
    if options == {"redisAddress": 5}:  # no schema lets it through: a head that nobody can create
        resources = {"limits": {"cpu": "1 core"}}
        container = "/spec/headGroupSpec/template/spec/containers/0"
        change = {"op": "add", "path": f"{container}/resources", "value": resources}
    await patch(world, change or {"op": "remove", "path": path})
    await delete(world)
    assert await exists(world)
    world.start_operator()
    await world.eventually(world.is_gone)
    assert not cleaners(world)


@pytest.mark.slow
async def test_a_refused_edit_of_a_group_leaves_no_state_in_redis(world: World):
    world.start_operator()
    await ready_cluster(world)
    path = "/spec/workerGroupSpecs/0/template/spec/containers/0/resources"
    await patch(world, {"op": "add", "path": path, "value": {"limits": {"cpu": "1 core"}}})
    await delete(world)
    await world.eventually(world.is_gone)
    assert len(cleaners(world)) == 1


async def test_switching_the_backend_of_a_living_cluster_takes_the_finalizer_away(world: World):
    world.start_operator()
    await ready_cluster(world)
    path = "/spec/gcsFaultToleranceOptions"
    await patch(world, {"op": "remove", "path": path})
    await world.eventually(lambda: has_finalizers(world))
    await patch(world, {"op": "add", "path": path, "value": {"redisAddress": "redis:6379"}})
    await world.eventually(lambda: has_finalizers(world, FINALIZER))


async def has_finalizers(world: World, *wanted: str) -> bool:
    return await finalizers(world) == wanted


async def test_the_finalizers_of_others_neither_wait_nor_go(world: World):
    world.start_operator()
    await ready_cluster(world, redis_cluster(finalizers=[THEIRS]))
    assert await finalizers(world) == (THEIRS, FINALIZER)
    await delete(world)
    await world.eventually(lambda: has_finalizers(world, THEIRS))
    assert len(cleaners(world)) == 1
    await patch(world, {"op": "remove", "path": "/metadata/finalizers"})
    await world.eventually(world.is_gone)


# -- with its state in Redis a cluster outlives its head: the workers stay, whatever becomes of i --


LONG = 400.0
"""Seconds in which a head that was lost again and again is replaced."""


def ready_head(world: World, *, but: frozenset[str] = frozenset()) -> Pod | None:
    """The ready head, unless it is one of these."""
    for pod in world.journal.present.values():
        if role(pod) == "head" and live(pod) and is_ready(pod) and pod.metadata.name not in but:
            return pod
    return None


async def end(world: World, head: Pod, how: str) -> None:
    """Have the head deleted, or end by itself in a certain way."""
    name = head.metadata.name
    if how == "deleted":
        await world.user.delete(PODS, world.namespace, name)
        return
    told = {"sim.manta.dev/outcome": how, "sim.manta.dev/fail-after": "0"}
    patch = {"metadata": {"annotations": told}}
    await world.user.merge_patch(PODS, world.namespace, name, patch)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_however_often_the_head_dies_no_worker_is_deleted(world: World):
    world.start_operator()
    await ready_cluster(world)
    names: set[str] = set()
    for turn in range(12 if world.server else 4):
        head = await world.eventually(lambda: ready_head(world, but=frozenset(names)), seconds=LONG)
        names.add(head.metadata.name)
        await end(world, head, "fail" if turn % 2 else "deleted")
    await world.eventually(lambda: ready_head(world, but=frozenset(names)), seconds=LONG)
    assert world.journal.workers_deleted() == 0
    assert world.journal.workers_created() == 2
    assert world.journal.most_live_heads == 1


@pytest.mark.parametrize("how", ["deleted", "fail"])
async def test_a_lost_head_is_replaced_under_a_new_name_while_the_workers_live_on(
    world: World, how: str
):
    world.start_operator()
    await ready_cluster(world)
    workers = {pod.metadata.uid for pod in world.journal.workers()}
    first = await world.eventually(lambda: ready_head(world))
    await end(world, first, how)
    name = frozenset({first.metadata.name})
    second = await world.eventually(lambda: ready_head(world, but=name))
    assert second.metadata.uid != first.metadata.uid
    assert {pod.metadata.uid for pod in world.journal.ready_workers()} == workers
    status = (await world.cluster()).status
    await world.eventually(lambda: names_head(world, second))
    assert status["state"] == "ready", "it is not taken back"


async def names_head(world: World, head: Pod) -> bool:
    return (await world.cluster()).status["head"].get("podName") == head.metadata.name
