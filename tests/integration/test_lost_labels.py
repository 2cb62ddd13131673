"""Pods that lose a label by which they are watched or recognised."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.kube.errors import KubeError
from controller.kube.objects import Pod
from controller.kube.resources import NAMESPACES, PODS
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import World, embedded_world, example_cluster

KIND = "ChildrenAsSpecified"

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]


@pytest.mark.parametrize("label", ["ray.io/node-type", "ray.io/cluster"])
async def test_a_pod_that_lost_a_label_keeps_its_place_and_the_operator_is_ready(
    world: World, label: str
):
    operator = world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    name = world.journal.workers()[0].metadata.name
    pods = dict(world.journal.created)
    patch = {"metadata": {"labels": {label: None}}}
    await world.user.merge_patch(PODS, world.namespace, name, patch)
    await world.settle(900)
    assert operator.operator.caches.unready() is None
    assert world.journal.created.keys() == pods.keys(), "it still runs and counts"
    assert not world.journal.marked

    await world.user.delete(PODS, world.namespace, name)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 2, seconds=60)
    await world.settle(60)
    assert operator.operator.expectations.statistics().expectations == 0


@pytest.mark.parametrize(
    "changed",
    [{"ray.io/group": "typo"}, {"ray.io/group": "headgroup"}, {"ray.io/node-type": "head"}],
)
async def test_a_pod_whose_label_is_changed_keeps_its_place_and_the_condition_says_how_to_mend_it(
    world: World, changed: dict[str, str]
):
    world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    meta = world.journal.workers()[0].metadata
    pods = dict(world.journal.created)
    await world.user.merge_patch(
        PODS, world.namespace, meta.name, {"metadata": {"labels": changed}}
    )
    await world.settle(900)
    assert world.journal.created.keys() == pods.keys()
    assert not world.journal.marked
    condition = find_condition((await world.cluster()).status["conditions"], KIND)
    assert condition is not None
    assert f"pod {meta.name} was created for group" in condition["message"]

    before = {key: (meta.labels or {})[key] for key in changed}
    await world.user.merge_patch(PODS, world.namespace, meta.name, {"metadata": {"labels": before}})
    await world.settle(60)
    assert world.journal.created.keys() == pods.keys()
    assert find_condition((await world.cluster()).status["conditions"], KIND) is None


# -- templates that hold what a user has copied from a pod, Manta's own annotations among it -------


@pytest.mark.parametrize("strategy", ["None", "RollingUpdate"])
async def test_no_worker_is_replaced_because_its_template_says_that_it_is_being_drained(
    world: World, strategy: str
):
    world.start_operator()
    body = example_cluster()
    (group, *_) = body["spec"]["workerGroupSpecs"]
    copied = {"manta.dev/draining-since": "2026-01-01T00:00:00Z", "theirs": "kept"}
    group["template"].setdefault("metadata", {})["annotations"] = copied
    body["spec"]["upgradeStrategy"] = {"type": strategy}
    await world.user.create(RAYCLUSTERS, world.namespace, body)
    await world.eventually(world.is_ready)
    await world.settle(60)
    assert not world.journal.marked
    for worker in world.journal.workers():
        annotations = worker.metadata.annotations or {}
        assert annotations["theirs"] == "kept"
        assert "manta.dev/draining-since" not in annotations


# -- copies of pods in another namespace, with the owner references of the originals ---------------


async def copy(world: World, pod: Pod) -> None:
    """Do what `kubectl get -o yaml | kubectl apply -n copies` does."""
    original = await world.user.get_raw(PODS, world.namespace, pod.metadata.name)
    kept = ("name", "labels", "annotations", "ownerReferences")
    original["metadata"] = {key: original["metadata"].get(key) for key in kept}
    for assigned in ("nodeName", "tolerations"):
        original["spec"].pop(assigned, None)
    await world.user.create(PODS, "copies", original)


async def test_copied_workers_in_another_namespace_are_none_of_the_cluster_s():
    async with embedded_world(components=frozenset({"kubelet"})) as world:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "copies"}}
        await world.user.create(NAMESPACES, "", namespace)
        world.start_operator(namespaces=())
        await world.create_cluster()
        await world.eventually(world.is_ready)
        for pod in world.journal.workers():
            await copy(world, pod)
        await world.settle(120)
        assert (world.journal.workers_created(), world.journal.workers_deleted()) == (2, 0)
        await world.scale(3)
        await world.eventually(lambda: len(world.journal.ready_workers()) == 3)
        copies = await world.user.list(PODS, "copies")
        assert len(copies.items) == 2, "they belong to nobody"


# -- lost pods are replaced at once, those that are lost again and again with back-off -------------


async def test_pods_that_are_deleted_the_moment_they_are_made_are_replaced_with_back_off(
    world: World,
):
    """Whether any plan sees them or not."""
    server = world.server
    assert server is not None

    async def delete(name: str) -> None:
        with suppress(KubeError):
            await world.user.delete(PODS, world.namespace, name, grace_seconds=0)

    def on_write(event: Any) -> None:
        if event.table == "pods" and event.type == "ADDED":
            world.background(delete(event.current.object["metadata"]["name"]))

    server.on_write.append(on_write)
    world.start_operator()
    await world.create_cluster()
    await world.settle(600)
    assert 3 <= len(world.journal.created) <= 12
    cluster = await world.cluster()
    said = {each["type"]: each for each in cluster.status["conditions"]}["Ready"]
    assert said["reason"] == "PodDeleted"


async def test_a_suspension_is_reported_at_once_although_pods_were_lost_again_and_again(
    world: World,
):
    world.start_operator()
    await world.create_cluster()
    await world.eventually(world.is_ready)
    for _ in range(3):
        lost = world.journal.workers()[-1].metadata.name
        await world.user.delete(PODS, world.namespace, lost, grace_seconds=0)
        await world.settle(1)
    await world.eventually(lambda: len(world.journal.workers()) < 2)
    suspend = {"spec": {"suspend": True}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", suspend)
    await world.eventually(lambda: not world.journal.present, seconds=20)
    await world.becomes(
        world.cluster, lambda found: found.status["state"] == "suspended", seconds=2
    )


async def test_many_pods_that_are_evicted_at_once_are_replaced_at_once(world: World):
    world.start_operator()
    await world.create_cluster(replicas=8)
    await world.eventually(world.is_ready)
    before = {pod.metadata.name for pod in world.journal.workers()}
    for name in sorted(before):
        await world.user.delete(PODS, world.namespace, name)
        await world.settle(0.5)

    def replaced() -> bool:
        ready = {pod.metadata.name for pod in world.journal.ready_workers()}
        return len(ready) == 8 and not before & ready

    await world.eventually(replaced, seconds=40)
