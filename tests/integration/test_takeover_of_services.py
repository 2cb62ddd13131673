"""RayServices of KubeRay go on serving under Manta: no pod is touched, and no config is lost."""

from __future__ import annotations

from typing import Any

import pytest

from controller.command.kinds import KindSettings, kinds_to_plan
from controller.command.planning.net_changes import Action, ObjectPlan
from controller.command.planning.planner import Planner
from controller.kube.resources import SERVICES
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.labels import OWN_PREFIX
from tests.integration.harness import REAL_KUBECONFIG, World
from tests.integration.rayservices import (
    Services,
    asked,
    serve_config,
    service_manifest,
    with_image,
)
from tests.integration.test_rayservices import greeting
from tests.ray.dashboard.simulated import Fault

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REST = 15 if REAL_KUBECONFIG else 60
"""Seconds in which an operator does whatever it wants to."""
KUBERAYS = {
    "ray.io/hash-without-replicas-and-workers-to-delete": "3F2BAUAMVLRQL0C9GVK83Q6JRDRQNBPE",
    "ray.io/num-worker-groups": "1",
    "ray.io/kuberay-version": "v1.6.0",
}
ADDED = {"rayStartParams": {"metrics-export-port": "8080"}}
"""What makes a live cluster differ from what its service asks for."""


async def leave_as_kuberay(services: Services, *, differing: bool = False) -> None:
    """Leave the clusters as KubeRay makes them: with its annotations instead of ours."""
    world = services.world
    for name in await services.clusters():
        cluster = await world.user.get(RAYCLUSTERS, world.namespace, name)
        own = [key for key in cluster.metadata.annotations or {} if key.startswith(OWN_PREFIX)]
        body: dict[str, Any] = {"metadata": {"annotations": dict.fromkeys(own) | KUBERAYS}}
        if differing:
            group = cluster.spec["workerGroupSpecs"][0] | ADDED
            body["spec"] = {"workerGroupSpecs": [group]}
        await world.user.merge_patch(RAYCLUSTERS, world.namespace, name, body)


async def forbidden_changes(services: Services, *more: Action) -> list[str]:
    """What `manta take-over` would stop for: something would be replaced or deleted."""
    plans = await plans_for_all(services)
    assert {plan.kind for plan in plans} >= {"RayCluster", "RayService"}
    assert not [plan.problem for plan in plans if plan.problem]
    actions: tuple[Action, ...] = ("replace", "delete", *more)
    return [f"{each.name}: {action}" for each in plans for action in actions if each.begins(action)]


async def plans_for_all(services: Services) -> list[ObjectPlan]:
    """What `manta plan --all` prints."""
    world = services.world
    planner = Planner(world.user, kinds_to_plan(KindSettings()), world.wall())
    return await planner.for_existing(world.namespace)


async def left_by_kuberay(
    services: Services, manifest: dict[str, Any], *, differing: bool = False
) -> None:
    """The manifest's RayService serves, and its operator is gone."""
    former = services.start_operator()
    await services.deployed(manifest)
    await services.world.settle(10)
    await former.kill()
    await leave_as_kuberay(services, differing=differing)


async def uid_of(services: Services, name: str) -> str:
    found = await services.world.user.get(SERVICES, services.world.namespace, name)
    return found.metadata.uid


@pytest.mark.parametrize("differing", [False, True])
async def test_what_serves_is_adopted_with_the_config_that_ray_has(
    world: World, services: Services, differing: bool
):
    await left_by_kuberay(services, service_manifest(), differing=differing)
    name, pods = await services.active(), set(world.journal.created)
    uid = await uid_of(services, "svc-serve-svc")
    assert await forbidden_changes(services, "create") == []

    services.start_operator()
    await world.settle(REST)
    serve = services.serve_of(name)
    assert set(world.journal.created) == pods
    assert not world.journal.marked
    assert await services.clusters() == [await services.active()] == [name]
    assert await uid_of(services, "svc-serve-svc") == uid
    assert [greeting(put) for put in serve.puts] == ["hi"]

    await services.patch(serveConfigV2=serve_config("hello"))
    await world.eventually(lambda: len(serve.puts) == 2, seconds=180)
    assert [greeting(put) for put in serve.puts] == ["hi", "hello"]
    assert await services.clusters() == [name]


@pytest.mark.parametrize("differing", [False, True])
async def test_an_upgrade_that_was_half_done_goes_on(
    world: World, services: Services, differing: bool
):
    former = services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=5)
    old = await services.deployed(manifest)
    failures: list[str] = []
    async with asked(services, failures):
        edited = with_image(manifest, "rayproject/ray:2.53.0")
        edited["spec"]["serveConfigV2"] = serve_config("hello")
        await services.edit(edited)
        await services.reaches(lambda s: s.get("pendingServiceStatus", {}).get("rayClusterName"))
        pending = await services.pending()
        await world.eventually(lambda: has_two_clusters(services))
        await former.kill()
        await leave_as_kuberay(services, differing=differing)
        assert await forbidden_changes(services) == []

        services.start_operator()
        await services.reaches(lambda s: s["activeServiceStatus"]["rayClusterName"] == pending)
        await world.settle(REST)
    assert not failures
    assert await services.clusters() == [pending]
    assert [greeting(put) for put in services.serve_of(pending).puts] == ["hello"]
    assert old != pending


@pytest.mark.parametrize("excludes_head", [False, True])
async def test_no_config_is_stored_while_serves_controller_does_not_answer(
    world: World, services: Services, excludes_head: bool
):
    former = services.start_operator()
    manifest = service_manifest(excludeHeadPodFromServeSvc=excludes_head)
    name = await services.deployed(manifest)
    await world.settle(10)
    await former.kill()
    await leave_as_kuberay(services)
    services.ray.fault(Fault.NO_CONTROLLER)
    edited = with_image(manifest, "rayproject/ray:2.53.0")
    edited["spec"]["serveConfigV2"] = serve_config("hello")
    await services.edit(edited)

    services.start_operator()
    await world.settle(15 if excludes_head else REST)
    cluster = await world.user.get(RAYCLUSTERS, world.namespace, name)
    assert "manta.dev/serve-config" not in cluster.metadata.annotations
    services.ray.fault(None)
    await services.taken_over(name)
    assert [greeting(put) for put in services.serve_of(name).puts] == ["hi"]


async def test_a_replaced_cluster_that_waits_for_its_deletion_stops_no_take_over(
    world: World, services: Services
):
    former = services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=600)
    old = await services.deployed(manifest)
    await services.edit(with_image(manifest, "rayproject/ray:2.53.0"))
    await services.taken_over(old)
    await world.settle(5)
    await former.kill()
    await leave_as_kuberay(services)
    assert await forbidden_changes(services) == []
    (plan,) = [each for each in await plans_for_all(services) if each.kind == "RayService"]
    (deleted,) = [each for each in plan.items if each.names == (old,)]
    assert (deleted.action, deleted.why) == (
        "delete",
        "the upgrade in progress replaces its cluster",
    )


async def test_an_edit_that_no_operator_has_seen_stops_a_take_over(services: Services):
    manifest = service_manifest()
    await left_by_kuberay(services, manifest)
    await services.edit(with_image(manifest, "rayproject/ray:2.53.0"))
    assert await forbidden_changes(services) == ["svc: delete"]


async def has_two_clusters(services: Services) -> bool:
    return len(await services.clusters()) == 2
