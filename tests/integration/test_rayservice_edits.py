"""Edits of RayServices that are easy to miss: what is taken away, renamed, kept, or in the way."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from controller.kube.resources import SERVICES
from controller.ray.api import RAYCLUSTERS
from tests.integration.rayservices import (
    Services,
    message,
    serve_config,
    service_manifest,
    with_image,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

IMAGE = "rayproject/ray:2.53.0"


def two_applications() -> str:
    config = yaml.safe_load(serve_config())
    hello = config["applications"][0]
    config["applications"].append(hello | {"name": "bye", "route_prefix": "/bye"})
    return yaml.safe_dump(config)


def without_user_config() -> str:
    config = yaml.safe_load(serve_config())
    del config["applications"][0]["deployments"][0]["user_config"]
    return yaml.safe_dump(config)


@pytest.mark.parametrize(
    ("before", "after"),
    [(two_applications(), serve_config()), (serve_config(), without_user_config())],
    ids=["an application", "a field"],
)
@pytest.mark.parametrize("killed", [False, True], ids=["", "while no operator runs"])
async def test_what_is_taken_out_of_the_config_is_taken_from_ray(
    services: Services, before: str, after: str, *, killed: bool
):
    operator = services.start_operator()
    name = await services.deployed(service_manifest(serveConfigV2=before))
    await services.world.settle(5)
    if killed:
        await operator.kill()
    await services.patch(serveConfigV2=after)
    if killed:
        services.start_operator()
    serve, wanted = services.serve_of(name), yaml.safe_load(after)
    await services.world.eventually(lambda: serve.puts[-1] == wanted)
    await services.world.settle(60)
    assert serve.puts == [yaml.safe_load(before), wanted]
    assert await services.is_ready()


async def test_a_renamed_service_leaves_one_that_follows_the_upgrades(services: Services):
    services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=5)
    old = await services.deployed(manifest)
    user, namespace = services.world.user, services.world.namespace
    before = await user.get_raw(SERVICES, namespace, "svc-serve-svc")
    manifest["spec"]["serveService"] = {"metadata": {"name": "mine"}}
    await services.edit(manifest)
    await services.world.eventually(lambda: services.selected("mine"))
    await services.edit(with_image(manifest, IMAGE))
    new = await services.taken_over(old)
    await services.world.becomes(services.clusters, [new], seconds=60)
    assert await services.selected("mine") == await services.selected("svc-serve-svc") == new
    after = await user.get_raw(SERVICES, namespace, "svc-serve-svc")
    assert after["spec"] | {"selector": {}} == before["spec"] | {"selector": {}}
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    await user.delete(SERVICES, namespace, "svc-serve-svc")
    await services.world.settle(30)
    assert await services.selected("svc-serve-svc") == ""
    assert await services.is_ready()


# -- groups of workers ---------------------------------------------------------------------------


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


async def test_without_upgrades_a_config_reaches_the_cluster_that_stays(services: Services):
    services.start_operator()
    manifest = service_manifest(upgradeStrategy={"type": "None"})
    name = await services.deployed(manifest)
    edited = with_image(manifest, IMAGE)
    await services.edit(edited)
    status = await services.reaches(lambda s: "former" in message(s, "UpgradeInProgress"))
    assert message(status, "UpgradeInProgress").startswith(
        f"cluster {name} keeps its former rayClusterConfig, as the upgrade strategy is None; "
    )
    edited["spec"]["serveConfigV2"] = serve_config("later")
    await services.edit(edited)
    await services.world.eventually(lambda: services.told() == [["hi", "later"]])
    await services.world.settle(30)
    assert await services.clusters() == [name]

    await services.world.user.delete(RAYCLUSTERS, services.world.namespace, name)
    await services.taken_over(name)
    assert services.told()[1:] == [["later"]]
    assert message(await services.status(), "UpgradeInProgress") == ""


def foreign(name: str) -> dict[str, Any]:
    spec = {"selector": {"app": "other"}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("name", ["svc-serve-svc", "svc-head-svc"])
async def test_a_service_of_another_owner_in_the_way_is_named_and_waited_for(
    services: Services, name: str
):
    services.start_operator()
    user, namespace = services.world.user, services.world.namespace
    await user.create(SERVICES, namespace, foreign(name))
    await services.create()
    said = f"Service {name} exists and belongs to no controller; delete it, or rename the RaySer"
    await services.reaches(lambda s: said in message(s, "Ready"))
    await services.world.settle(30)
    found = await user.get(SERVICES, namespace, name)
    assert found.spec.selector == {"app": "other"}
    await user.delete(SERVICES, namespace, name)
    await services.serving()
    await services.world.eventually(services.active)
    assert await services.selected(name) == await services.active()
