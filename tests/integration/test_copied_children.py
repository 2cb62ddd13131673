"""Copies of pods in another namespace, with the owner references of the originals."""

from __future__ import annotations

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import NAMESPACES, PODS
from tests.integration.harness import World, embedded_world

pytestmark = pytest.mark.embedded_only


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
