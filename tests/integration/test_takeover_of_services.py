"""RayServices of KubeRay go on serving under Manta: no pod is touched, and no config is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controller.command.kinds import KindSettings, kinds_of
from controller.command.planning.planner import Planner
from controller.kube.resources import SERVICES
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.labels import OWN_PREFIX
from tests.integration.rayservices import (
    Services,
    asked,
    serve_config,
    service_manifest,
    with_image,
)
from tests.integration.test_rayservices import greeting

if TYPE_CHECKING:
    from tests.integration.harness import World

pytestmark = pytest.mark.timeout(120)

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


async def forbidden_changes(services: Services) -> int:
    """How many objects `manta plan --all` would create, replace or delete."""
    world = services.world
    planner = Planner(world.user, kinds_of(KindSettings(), None), world.wall())
    plans = await planner.for_existing(world.namespace)
    assert {plan.kind for plan in plans} >= {"RayCluster", "RayService"}
    assert not [plan.problem for plan in plans if plan.problem]
    return sum(plan.count(action) for plan in plans for action in ("create", "replace", "delete"))


async def uid_of(services: Services, name: str) -> str:
    found = await services.world.user.get(SERVICES, services.world.namespace, name)
    return found.metadata.uid


@pytest.mark.parametrize("differing", [False, True])
async def test_what_serves_is_adopted_with_the_config_that_ray_has(world: World, differing: bool):
    services = Services(world)
    former = services.start_operator()
    await services.create()
    await services.reaches(lambda s: s.get("serviceStatus") == "Running")
    await world.settle(10)
    await former.kill()
    await leave_as_kuberay(services, differing=differing)
    name, pods = await services.active(), set(world.journal.created)
    uid = await uid_of(services, "svc-serve-svc")
    assert await forbidden_changes(services) == 0

    services.start_operator()
    await world.settle(60)
    serve = services.serve_of(name)
    assert set(world.journal.created) == pods
    assert not world.journal.marked
    assert await services.clusters() == [await services.active()] == [name]
    assert await uid_of(services, "svc-serve-svc") == uid
    assert [greeting(put) for put in serve.puts] == ["hi"]

    await services.patch(serveConfigV2=serve_config("hello"))
    await world.eventually(lambda: len(serve.puts) == 2)
    assert [greeting(put) for put in serve.puts] == ["hi", "hello"]
    assert await services.clusters() == [name]


@pytest.mark.parametrize("differing", [False, True])
async def test_an_upgrade_that_was_half_done_goes_on(world: World, differing: bool):
    services = Services(world)
    former = services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=5)
    await services.create(manifest)
    await services.reaches(lambda s: s.get("serviceStatus") == "Running")
    old = await services.active()
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
        assert await forbidden_changes(services) == 0

        services.start_operator()
        await services.reaches(lambda s: s["activeServiceStatus"]["rayClusterName"] == pending)
        await world.settle(60)
    assert not failures
    assert await services.clusters() == [pending]
    assert [greeting(put) for put in services.serve_of(pending).puts] == ["hello"]
    assert old != pending


async def has_two_clusters(services: Services) -> bool:
    return len(await services.clusters()) == 2
