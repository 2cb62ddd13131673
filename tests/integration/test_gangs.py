"""Gangs on the embedded server: no pod without its group, and groups that follow their clusters."""

from __future__ import annotations

from typing import Any

import pytest

from controller.command.planning.offline import group_definitions
from controller.kube.resources import POD_GROUPS, PODS, VOLCANO_POD_GROUPS, WORKLOADS, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS
from controller.ray.api.batch_schedulers import VOLCANO, WORKLOAD_API, BatchScheduler
from controller.ray.cluster import RayClusterKind
from controller.ray.settings import RaySettings
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import World, example_cluster, install_crds
from tests.integration.rays import Rays

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


async def test_a_gang_that_grows_gets_another_workload_and_keeps_its_pods(world: World):
    await install_crds(world, *group_definitions(WORKLOAD_API))
    world.start_operator(kind=operator(WORKLOAD_API))
    await create(world, **GANG)
    await world.eventually(world.is_ready)
    before = await uids(world)
    protection = {"metadata": {"finalizers": ["scheduling.k8s.io/podgroup-protection"]}}
    name = "example-cluster"
    await world.user.merge_patch(POD_GROUPS, world.namespace, name, protection)

    await world.scale(3)

    async def has_grown() -> bool:
        return len(await uids(world)) == 4 and await world.is_ready()

    await world.eventually(has_grown)
    assert before < await uids(world)
    group = await world.user.get(POD_GROUPS, world.namespace, name)
    assert group.spec.scheduling_policy == {"gang": {"minCount": 4}}
    [workload] = (await world.user.list(WORKLOADS, world.namespace)).items
    [template] = workload.spec.pod_group_templates
    assert template["schedulingPolicy"] == {"gang": {"minCount": 4}}


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


@pytest.mark.slow
async def test_a_rayjob_has_one_group_that_is_empty_while_it_is_suspended(world: World):
    await install_crds(world, *group_definitions(VOLCANO))
    rays = Rays(world, RaySettings(batch_scheduler=VOLCANO))
    await rays.open()
    rays.start_operator(clusters=RaySettings(batch_scheduler=VOLCANO))
    await rays.create(shutdownAfterJobFinishes=True)
    await rays.reaches("Running")
    name = "ray-job-pg"
    assert await names(world, VOLCANO_POD_GROUPS) == [name]
    for pod in (await world.user.list(PODS, world.namespace)).items:
        assert (pod.metadata.annotations or {})["scheduling.k8s.io/group-name"] == name

    async def size() -> int:
        found = await world.user.get(VOLCANO_POD_GROUPS, world.namespace, name)
        return found.spec.min_member

    async def is_empty() -> bool:
        return await size() == 0

    assert await size() == 2
    await rays.patch(suspend=True)
    await rays.reaches("Suspended")
    await world.eventually(is_empty)
    await rays.patch(suspend=False)
    await rays.reaches("Running")
    assert await size() == 2
    await rays.reaches("Complete")
    await world.eventually(is_empty, seconds=120)
    await world.user.delete(RAYJOBS, world.namespace, "job")
    await world.becomes(lambda: names(world, VOLCANO_POD_GROUPS), [])
