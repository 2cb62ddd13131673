"""Pods that the API server refuses to a StatefulSet or a Job: only their events tell of it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.kube.resources import PODS
from controller.testing.faults import ErrorResponse, Rule
from devcluster.nodes import run_nodes
from devcluster.nodes.workloads import StatefulSetController
from tests.integration.harness import World, embedded_world
from tests.integration.rays import Rays
from tests.integration.test_deletion import delete, ready_cluster, redis_cluster, told
from tests.integration.test_first_causes import QUOTAS
from tests.integration.workspaces import opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.embedded_only]

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
        found = await world.says("BeingDeleted")
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


# -- rayJobs whose submitter's pods the API server refuses: only the Job's events tell of it -------


async def with_room_for(rays: Rays, pods: int) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team"},
        "spec": {"hard": {"pods": str(pods)}},
    }
    await rays.world.user.create(QUOTAS, rays.world.namespace, quota)


async def ready(rays: Rays) -> dict[str, Any]:
    return dict(find_condition((await rays.status()).get("conditions", ()), "Ready") or {})


async def test_a_quota_without_room_for_the_submitter_is_the_first_cause_until_it_has_some(
    rays: Rays,
):
    await with_room_for(rays, 2)
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode")

    async def told() -> bool:
        return (await ready(rays)).get("reason") == "QuotaExceeded"

    await rays.world.eventually(told, seconds=60, pause=0.5)
    message = (await ready(rays))["message"]
    assert message.startswith("submitter: Job job cannot create its pod: the pod is forbidden: ")
    assert "exceeded quota: team" in message
    assert "spec.submitterPodTemplate" in message
    events = [reason for reason, _ in await rays.events()]
    assert events.count("FailedToCreateRayJobSubmitter") == 1
    more = {"spec": {"hard": {"pods": "3"}}}
    await rays.world.user.merge_patch(QUOTAS, rays.world.namespace, "team", more)
    await rays.reaches("Complete", seconds=200)


async def test_the_deadline_before_running_names_what_refused_the_submitter(rays: Rays):
    await with_room_for(rays, 2)
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode", preRunningDeadlineSeconds=40)
    status = await rays.reaches("Failed", seconds=60)
    assert status["reason"] == "PreRunningDeadlineExceeded"
    assert "exceeded quota: team" in status["message"]
    await rays.world.settle(30)
    assert await rays.jobs_of_kubernetes() == [], "it could still submit the job"
