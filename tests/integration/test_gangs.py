"""Gangs on the embedded server: no pod without its group, and groups that follow their clusters."""

from __future__ import annotations

from typing import Any

import pytest

from controller.command.planning.offline import group_definitions
from controller.kube.resources import POD_GROUPS, PODS, VOLCANO_POD_GROUPS, WORKLOADS, Resource
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.batch_schedulers import VOLCANO, WORKLOAD_API, BatchScheduler
from controller.ray.cluster import RayClusterKind
from controller.ray.settings import RaySettings
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import World, example_cluster, install_crds

pytestmark = [pytest.mark.embedded_only, pytest.mark.timeout(300)]

GANG = {"ray.io/gang-scheduling-enabled": "true"}


def operator(scheduler: BatchScheduler) -> RayClusterKind:
    return RayClusterKind(RaySettings(batch_scheduler=scheduler))


async def create(world: World, *, replicas: int = 2, **labels: str) -> None:
    manifest = example_cluster(replicas=replicas)
    manifest["metadata"]["labels"] = labels
    await world.user.create(RAYCLUSTERS, world.namespace, manifest)


async def names(world: World, resource: Resource[Any]) -> list[str]:
    found = (await world.user.list(resource, world.namespace)).items
    return sorted(each.metadata.name for each in found)


async def uids(world: World) -> set[str]:
    return {each.metadata.uid for each in (await world.user.list(PODS, world.namespace)).items}


@pytest.mark.slow
async def test_no_pod_starts_while_its_group_is_refused(world: World):
    await install_crds(world, *group_definitions(VOLCANO))
    denial = 'admission webhook "validatepodgroup.volcano.sh" denied the request: queue is closed'
    refusal = Rule(
        ErrorResponse(403, "Forbidden", denial),
        resource=str(VOLCANO_POD_GROUPS),
        verbs=frozenset({"create"}),
    )
    world.start_operator(kind=operator(VOLCANO), rules=[refusal])
    await create(world)
    await world.says("AdmissionDenied", "queue is closed")
    await world.settle(600)
    assert await names(world, PODS) == []
    await world.says("AdmissionDenied", "queue is closed")

    refusal.times = 0
    await world.eventually(world.is_ready, seconds=120)
    assert await names(world, VOLCANO_POD_GROUPS) == ["ray-example-pg"]


async def test_turned_off_on_a_living_cluster_nothing_stays_and_no_pod_restarts(world: World):
    await install_crds(world, *group_definitions(WORKLOAD_API))
    world.start_operator(kind=operator(WORKLOAD_API))
    await create(world)
    await world.eventually(world.is_ready)
    before = await uids(world)
    label = {"metadata": {"labels": GANG}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", label)
    await world.becomes(lambda: names(world, POD_GROUPS), ["example-cluster"])
    off = {"metadata": {"labels": {"ray.io/gang-scheduling-enabled": None}}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", off)

    async def gone() -> bool:
        return not await names(world, POD_GROUPS) and not await names(world, WORKLOADS)

    await world.eventually(gone)
    await world.settle(60)
    assert await uids(world) == before
