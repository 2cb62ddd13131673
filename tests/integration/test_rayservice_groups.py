"""Worker groups of a RayService are known by their names, whatever their order."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controller.ray.api import RAYCLUSTERS
from tests.integration.rayservices import Services, service_manifest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

Json = dict[str, Any]


def two_groups(**spec: Any) -> Json:
    manifest = service_manifest()
    config = manifest["spec"]["rayClusterConfig"]
    (group,) = config["workerGroupSpecs"]
    own = {"minReplicas": 0, "maxReplicas": 5}
    config["workerGroupSpecs"] = [
        group | own | {"groupName": "a", "replicas": 3},
        copy.deepcopy(group) | own | {"groupName": "b", "replicas": 1},
    ]
    config |= spec
    return manifest


def groups(manifest: Json) -> list[Json]:
    return manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"]


async def replicas(services: Services, name: str) -> dict[str, int]:
    cluster = await services.world.user.get(RAYCLUSTERS, services.world.namespace, name)
    return {each["groupName"]: each["replicas"] for each in cluster.spec["workerGroupSpecs"]}


async def test_swapped_groups_make_no_second_cluster_and_keep_their_numbers(services: Services):
    services.start_operator()
    manifest = two_groups()
    name = await services.deployed(manifest)
    workers = {pod.metadata.uid for pod in services.world.journal.workers()}
    groups(manifest).reverse()
    await services.edit(manifest)
    await services.world.settle(60)
    assert await services.clusters() == [name]
    assert await replicas(services, name) == {"a": 3, "b": 1}
    assert {pod.metadata.uid for pod in services.world.journal.workers()} == workers
    groups(manifest)[0]["replicas"] = 2  # of b, which stands first now
    await services.edit(manifest)
    await services.world.settle(60)
    assert await services.clusters() == [name]
    assert await replicas(services, name) == {"a": 3, "b": 2}


async def test_a_new_group_between_others_is_added_to_the_running_cluster(services: Services):
    services.start_operator()
    manifest = two_groups()
    name = await services.deployed(manifest)
    groups(manifest).reverse()
    groups(manifest).insert(1, copy.deepcopy(groups(manifest)[0]) | {"groupName": "c"})
    await services.edit(manifest)
    await services.world.settle(60)
    assert await services.clusters() == [name]
    assert await replicas(services, name) == {"a": 3, "b": 1, "c": 1}


async def test_numbers_of_an_autoscaler_stay_with_their_groups(services: Services):
    services.start_operator()
    manifest = two_groups(enableInTreeAutoscaling=True)
    name = await services.deployed(manifest)
    world = services.world
    cluster = await world.user.get(RAYCLUSTERS, world.namespace, name)
    chosen = [{**group, "replicas": 4} for group in cluster.spec["workerGroupSpecs"]]
    chosen[1]["replicas"] = 2
    await world.user.merge_patch(
        RAYCLUSTERS, world.namespace, name, {"spec": {"workerGroupSpecs": chosen}}
    )
    groups(manifest).reverse()
    groups(manifest)[0]["maxReplicas"] = 9  # of b
    await services.edit(manifest)
    await world.settle(60)
    assert await services.clusters() == [name]
    assert await replicas(services, name) == {"a": 4, "b": 2}
    cluster = await world.user.get(RAYCLUSTERS, world.namespace, name)
    bounds = {each["groupName"]: each["maxReplicas"] for each in cluster.spec["workerGroupSpecs"]}
    assert bounds == {"a": 5, "b": 9}


async def test_what_another_version_has_recorded_is_rewritten_and_no_cluster_is_made(
    services: Services,
):
    operator = services.start_operator()
    manifest = two_groups()
    name = await services.deployed(manifest)
    await operator.stop()
    world = services.world
    cluster = await world.user.get(RAYCLUSTERS, world.namespace, name)
    recorded = (cluster.metadata.annotations or {})["manta.dev/made-from"]
    service = await services.service()
    other = f"2.{'a' * 16}@{service.metadata.generation}"
    patch = {"metadata": {"annotations": {"manta.dev/made-from": other}}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, name, patch)
    services.start_operator()
    await world.settle(30)
    cluster = await world.user.get(RAYCLUSTERS, world.namespace, name)
    assert (cluster.metadata.annotations or {})["manta.dev/made-from"] == recorded
    groups(manifest).reverse()
    await services.edit(manifest)
    await world.settle(60)
    assert await services.clusters() == [name]
