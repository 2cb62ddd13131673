"""Pods that the API server refuses to a StatefulSet or a Job: only their events tell of it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from controller.devcluster.nodes import run_nodes
from controller.devcluster.nodes.stateful_sets import StatefulSetController
from controller.kube.resources import PODS
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import World, embedded_world
from tests.integration.test_deletion import delete, ready_cluster, redis_cluster, told
from tests.integration.test_first_causes import QUOTAS, said
from tests.integration.workspaces import opened

pytestmark = [pytest.mark.timeout(300), pytest.mark.embedded_only]

TINY = 'pods "x-{n}" is forbidden: maximum memory usage per Container is 100Mi, but limit is 256Mi'
JOB = "Job example-redis-cleanup"


async def limit_pods(world: World, pods: int, *, again: bool = False) -> None:
    limit = {"spec": {"hard": {"pods": str(pods)}}}
    if again:
        await world.user.merge_patch(QUOTAS, world.namespace, "team", limit)
        return
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}}
    await world.user.create(QUOTAS, world.namespace, quota | limit)


@asynccontextmanager
async def stateful_sets(world: World) -> AsyncIterator[None]:
    """A controller of StatefulSets, as long as the block runs."""
    async with run_nodes(
        world.client("stateful-sets"),
        clock=world.loop,
        wall=world.wall,
        rng=random.Random(3),
        components=frozenset(),
        others=[StatefulSetController],
    ):
        yield


async def test_a_quota_without_room_for_a_model_server_is_its_cause_until_it_has_some(world: World):
    await limit_pods(world, 0)
    async with opened(world) as spaces, stateful_sets(world):
        spaces.start_operator()
        await spaces.create()
        await spaces.reaches("InferenceReady", "False", "QuotaExceeded")
        message = (await spaces.condition("InferenceReady"))[2]
        assert message.startswith(
            "StatefulSet phi cannot create its pod: the pod is forbidden: exceeded quota: team"
        )
        await limit_pods(world, 1, again=True)

        async def has_pod() -> bool:
            pods = (await world.user.list(PODS, world.namespace)).items
            return any(pod.metadata.name == "phi-0" for pod in pods)

        async def is_forgotten() -> bool:
            return "quota" not in (await spaces.condition("InferenceReady"))[2]

        await world.eventually(has_pod, seconds=200)
        await world.eventually(is_forgotten, seconds=60)


async def test_a_deleted_cluster_says_that_a_quota_refuses_its_cleanup_and_goes_when_it_may(
    world: World,
):
    world.start_operator()
    await ready_cluster(world, redis_cluster(timeout=1000))
    await limit_pods(world, 0)
    await delete(world)

    async def message() -> str:
        found = await said(world, "BeingDeleted")
        return found if "cannot create" in found else ""

    found = await world.eventually(message, seconds=60)
    assert f": {JOB} cannot create its pod: the pod is forbidden: exceeded quota: team" in found
    assert found.endswith("; ask for a larger quota")
    await limit_pods(world, 1, again=True)
    await world.eventually(world.is_gone, seconds=250)


async def test_a_limit_range_that_refuses_the_cleanup_to_the_end_is_in_the_last_event():
    rule = Rule(
        ErrorResponse(403, "Forbidden", TINY),
        resource="pods",
        verbs=frozenset({"create"}),
        name=lambda name: not name or "redis-cleanup" in name,  # not the bindings of the others
    )
    async with embedded_world(node_rules=[rule]) as world:
        world.start_operator()
        await ready_cluster(world, redis_cluster(timeout=20))
        await delete(world)
        await world.eventually(world.is_gone, seconds=60)
        note = (await told(world))["ForceDeletedStuckCluster"]
    assert f"{JOB} cannot create its pod: the pod is forbidden: maximum memory usage" in note
    assert "ask for another LimitRange: this Job always has 200m of CPU" in note
