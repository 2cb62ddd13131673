"""Changes by others are told with their author, and edits of an owner reach its cluster."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.conditions import READY, find_condition
from controller.ray.api import RAYCLUSTERS, RayCluster
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.api.rayservice import RAYSERVICES
from tests.integration.harness import World
from tests.integration.rays import Rays, forever
from tests.integration.rayservices import Services, message, service_manifest
from tests.integration.test_two_writers import track_managers
from tests.ray.job.rayjobs import job_manifest

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only, pytest.mark.timeout(180)]

Json = dict[str, Any]
TRACKED = {"argocd.argoproj.io/tracking-id": "shop:ray.io/RayService:default/svc"}


def labelled(labels: Json, annotations: Json) -> Json:
    manifest = service_manifest()
    manifest["metadata"] |= {"labels": labels, "annotations": annotations}
    return manifest


async def suspend(world: World, name: str, manager: str) -> None:
    """Suspend a cluster; the server keeps who set the field."""
    await track_managers(world, RAYCLUSTERS, name)
    await world.client(manager).merge_patch(
        RAYCLUSTERS, world.namespace, name, {"spec": {"suspend": True}}
    )


async def child(services: Services, name: str) -> RayCluster:
    return await services.world.user.get(RAYCLUSTERS, services.world.namespace, name)


async def test_who_has_suspended_the_cluster_of_a_service_is_named(services: Services):
    services.start_operator()
    name = await services.deployed(service_manifest())
    world = services.world
    await suspend(world, name, "kueue")
    await world.settle(60)
    said = message(await services.status(), READY)
    assert f"spec.suspend of RayCluster {name} is true, which this RayService does not ask" in said
    assert "set by kueue (Update at " in said


async def test_who_has_suspended_the_cluster_of_a_job_is_named(rays: Rays):
    rays.start_operator()
    await rays.create()
    world = rays.world

    async def clusters() -> list[str]:
        found = await world.user.list(RAYCLUSTERS, world.namespace)
        return [each.metadata.name for each in found.items]

    await world.eventually(clusters, pause=0.1)
    (name,) = await clusters()
    await suspend(world, name, "kueue")
    await world.settle(60)
    status = await rays.status()
    assert status["jobDeploymentStatus"] == "Initializing"
    found = find_condition(status["conditions"], READY) or {}
    assert found["reason"] == "RayClusterSuspended"
    assert found["message"].startswith(f"spec.suspend of RayCluster {name} is true, which this Ray")
    assert "set by kueue (Update at " in found["message"]
    cluster = await world.user.get(RAYCLUSTERS, world.namespace, name)
    own = find_condition(cluster.status["conditions"], READY) or {}
    assert "; set by kueue (Update at " in own["message"]


LONG = {"note": "x" * 262_100}


async def test_an_annotation_that_is_too_long_for_the_cluster_is_that_of_its_service(
    services: Services,
):
    services.start_operator()
    await services.create(labelled({}, LONG))
    await services.world.settle(60)
    said = message(await services.status(), READY)
    assert "metadata.annotations" in said
    assert said.endswith("shorten or correct the annotations of RayService svc")


async def test_an_annotation_that_is_too_long_for_the_cluster_is_that_of_its_job(rays: Rays):
    rays.start_operator()
    manifest = job_manifest()
    manifest["metadata"] = {"name": "own", "annotations": {"note": "x" * 262_030}}
    await rays.world.user.create(RAYJOBS, rays.world.namespace, manifest)
    await rays.world.settle(60)
    status = (await rays.world.user.get(RAYJOBS, rays.world.namespace, "own")).status
    found = find_condition(status.get("conditions", ()), READY) or {}
    assert "metadata.annotations" in found["message"]
    assert found["message"].endswith("shorten or correct the annotations of RayJob own")


async def test_an_active_cluster_that_somebody_deletes_is_told_with_the_tool_that_may_have(
    services: Services,
):
    services.start_operator()
    old = await services.deployed(labelled({}, TRACKED))
    world = services.world
    await world.user.delete(RAYCLUSTERS, world.namespace, old)
    new = await services.taken_over(old)
    events = dict(await world.events_about("RayService", "svc"))
    assert events["RayClusterDeleted"] == (
        f"RayCluster {old}, which served, is replaced by {new}: it was deleted by somebody else; "
        "it had argocd.argoproj.io/tracking-id from this object, by which Argo CD prunes: exclude "
        "RayClusters there"
    )


async def test_a_cluster_of_a_running_job_that_somebody_deletes_is_told_with_the_tool(rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    manifest = job_manifest()
    manifest["metadata"] = {"name": "pruned", "annotations": TRACKED}
    world = rays.world
    await world.user.create(RAYJOBS, world.namespace, manifest)

    async def status() -> Json:
        return (await world.user.get(RAYJOBS, world.namespace, "pruned")).status or {}

    await world.becomes(status, lambda found: found.get("jobStatus") == "RUNNING", pause=0.1)
    name = (await status())["rayClusterName"]
    await world.user.delete(RAYCLUSTERS, world.namespace, name)
    await world.settle(10)
    said = (await status())["message"]
    assert f"cluster {name} was deleted by somebody else; it had argocd.argoproj.io" in said
    assert "by which Argo CD prunes" in said


async def test_edited_labels_and_annotations_reach_the_cluster_and_restart_nothing(
    services: Services,
):
    services.start_operator()
    name = await services.deployed(labelled({"team": "a", "old": "x"}, {"note": "1"}))
    world = services.world
    pods = {pod.metadata.uid for pod in world.journal.present.values()}
    await world.user.merge_patch(
        RAYCLUSTERS, world.namespace, name, {"metadata": {"labels": {"team": "mine"}}}
    )
    await world.settle(30)
    labels = (await child(services, name)).metadata.labels or {}
    assert labels["team"] == "mine", "what others change on the child stays"
    edit = {"labels": {"team": "b", "old": None, "new": "y"}, "annotations": {"note": "2"}}
    await world.user.merge_patch(RAYSERVICES, world.namespace, "svc", {"metadata": edit})
    await world.settle(30)
    found = (await child(services, name)).metadata
    labels, annotations = found.labels or {}, found.annotations or {}
    assert (labels["team"], labels["new"], "old" in labels) == ("b", "y", False)
    assert labels["ray.io/originated-from-cr-name"] == "svc"
    assert annotations["note"] == "2"
    assert await services.clusters() == [name]
    assert {pod.metadata.uid for pod in world.journal.present.values()} == pods
    revision = found.resource_version
    await world.settle(60)
    assert (await child(services, name)).metadata.resource_version == revision


async def test_instructions_to_the_operator_reach_the_next_cluster_only(services: Services):
    services.start_operator()
    name = await services.deployed(service_manifest())
    world = services.world
    edit = {"annotations": {"ray.io/external-storage-namespace": "another", "first": "of all"}}
    await world.user.merge_patch(RAYSERVICES, world.namespace, "svc", {"metadata": edit})
    await world.settle(30)
    annotations = (await child(services, name)).metadata.annotations or {}
    assert "ray.io/external-storage-namespace" not in annotations
    assert annotations["first"] == "of all"


async def test_a_cluster_of_an_earlier_version_follows_the_next_edit(services: Services):
    services.start_operator()
    name = await services.deployed(labelled({"team": "a"}, {}))
    world = services.world
    taken = {"metadata": {"annotations": {"manta.dev/inherited": None}}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, name, taken)
    await world.settle(10)
    edit = {"metadata": {"labels": {"team": "b"}}}
    await world.user.merge_patch(RAYSERVICES, world.namespace, "svc", edit)
    await world.settle(10)
    assert ((await child(services, name)).metadata.labels or {})["team"] == "b"
