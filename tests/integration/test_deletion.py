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


def heads(world: World) -> list[Pod]:
    return [pod for pod in world.journal.present.values() if role(pod) == "head"]


def cleaners(world: World) -> list[Pod]:
    """Pods of the cleanup Job that ever were."""
    return [pod for pod in world.journal.created.values() if role(pod) == "redis-cleanup"]


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
