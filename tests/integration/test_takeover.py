"""From KubeRay to Manta and back: no pod is touched that the specification does not call for."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.labels import TEMPLATE_HASH
from tests.integration.harness import RunningOperator, World, example_cluster
from tests.integration.kuberay import VERSION, Legacy, ready_status, unrest

pytestmark = pytest.mark.slow

REST = 30.0
"""Seconds after which everything that is still to be done would have been done."""

REAL_REST = 5.0
"""The same where seconds pass in real time."""

FINALIZER = "ray.io/gcs-ft-redis-cleanup-finalizer"
HASH = "ray.io/upgrade-strategy-recreate-hash"


def multi_host(replicas: int, *, hosts: int = 2) -> dict[str, Any]:
    manifest = example_cluster(replicas=replicas)
    manifest["spec"]["workerGroupSpecs"][0]["numOfHosts"] = hosts
    return manifest


def autoscaled(replicas: int, *named: str) -> dict[str, Any]:
    manifest = example_cluster(replicas=replicas)
    manifest["spec"]["enableInTreeAutoscaling"] = True
    group = manifest["spec"]["workerGroupSpecs"][0]
    group["scaleStrategy"] = {"workersToDelete": list(named)}
    return manifest


async def take_over(world: World) -> RunningOperator:
    """Start Manta and let it come to rest; afterwards nothing at all is written."""
    operator = world.start_operator()
    rest = REST if world.server is not None else REAL_REST
    if world.server is None:
        await come_to_rest(world, operator)
    await world.settle(rest)
    written = len(operator.transport.journal.writes)
    assert written > 0, "it has taken notice"
    await world.settle(10 * rest if world.server is not None else rest)
    assert [str(entry) for entry in operator.transport.journal.writes[written:]] == []
    return operator


async def come_to_rest(world: World, operator: RunningOperator) -> None:
    """Pods become ready as fast as a busy machine lets them: wait a minute at most."""
    for _ in range(12):
        written = len(operator.transport.journal.writes)
        await world.settle(REAL_REST)
        if written == len(operator.transport.journal.writes) > 0:
            return


def touched(world: World, legacy: Legacy) -> tuple[list[str], list[str]]:
    """Names of the pods that were made and of those that were deleted since KubeRay left."""
    journal = world.journal
    made = [p.metadata.name for p in journal.created.values() if p.metadata.name not in legacy.pods]
    gone = [journal.created[uid].metadata.name for uid in journal.marked]
    return sorted(made), sorted(gone)


async def untouched(world: World, legacy: Legacy) -> None:
    await legacy.all_ready()
    before = {pod.metadata.uid: essence(pod) for pod in await pods(world)}
    await take_over(world)
    assert touched(world, legacy) == ([], [])
    after = await pods(world)
    assert {pod.metadata.uid: essence(pod) for pod in after} == before
    assert all(TEMPLATE_HASH in (pod.metadata.annotations or {}) for pod in after)


def essence(pod: Pod) -> tuple[Any, ...]:
    """Everything but the record of the template that it counts as made from."""
    annotations = {**(pod.metadata.annotations or {})}
    annotations.pop(TEMPLATE_HASH, None)
    return annotations, pod.metadata.labels, pod.metadata.owner_references, pod.spec, pod.status


async def pods(world: World) -> list[Pod]:
    return list((await world.user.list(PODS, world.namespace)).items)


async def labels_of(world: World, key: str) -> list[str]:
    return sorted(str((pod.metadata.labels or {}).get(key)) for pod in await pods(world))


async def test_a_cluster_at_rest_is_adopted_without_touching_a_pod(world: World):
    legacy = Legacy(world)
    await legacy.create()
    await legacy.add_head()
    await legacy.add_workers(2)
    await untouched(world, legacy)
    assert await world.is_ready()


async def test_workers_from_before_replica_indices_are_adopted_as_they_are(world: World):
    legacy = Legacy(world)
    await legacy.create()
    await legacy.add_head()
    await legacy.add_workers(2, indexed=False)
    await untouched(world, legacy)


async def test_an_autoscaled_cluster_with_its_access_is_adopted_without_touching_a_pod(
    world: World,
):
    legacy = Legacy(world, autoscaled(1))
    await legacy.create()
    await legacy.add_access()
    await legacy.add_head()
    await legacy.add_workers(3)  # more than asked for: the autoscaler has not named them yet
    await untouched(world, legacy)


async def test_whole_slices_are_adopted_without_touching_a_pod(world: World):
    legacy = Legacy(world, multi_host(2))
    await legacy.create()
    await legacy.add_head()
    for index in range(2):
        await legacy.add_slice(index, 2)
    await untouched(world, legacy)


async def test_hosts_from_before_slices_are_adopted_without_touching_a_pod(world: World):
    legacy = Legacy(world, multi_host(2))
    await legacy.create()
    await legacy.add_head()
    await legacy.add_workers(4, indexed=False)
    await untouched(world, legacy)


async def test_a_suspended_cluster_stays_suspended(world: World):
    manifest = example_cluster()
    manifest["spec"]["suspend"] = True
    legacy = Legacy(world, manifest)
    await legacy.create(status=ready_status(suspended=True))
    await take_over(world)
    assert touched(world, legacy) == ([], [])


async def test_a_fault_tolerant_cluster_keeps_kuberays_finalizer_and_its_pods(world: World):
    manifest = example_cluster()
    manifest["metadata"]["finalizers"] = [FINALIZER]
    manifest["spec"]["gcsFaultToleranceOptions"] = {"redisAddress": "redis:6379"}
    legacy = Legacy(world, manifest)
    await legacy.create()
    await legacy.add_head()
    await legacy.add_workers(2)
    await untouched(world, legacy)
    assert (await world.cluster()).metadata.finalizers == (FINALIZER,)


async def test_of_a_cluster_that_lost_a_group_only_the_pods_of_that_group_go(world: World):
    manifest = example_cluster(replicas=1)
    legacy = Legacy(world, manifest)
    groups = manifest["spec"]["workerGroupSpecs"]
    await legacy.create()
    await legacy.add_head()
    await legacy.add_workers(1)
    groups.append(groups[0] | {"groupName": "removed"})
    orphans = await legacy.add_workers(2, group=1)
    await take_over(world)
    assert touched(world, legacy) == ([], sorted(orphans))


async def test_workers_that_the_autoscaler_had_named_go_and_no_others(world: World):
    legacy = Legacy(world, autoscaled(2))
    await legacy.create()
    await legacy.add_access()
    await legacy.add_head()
    first, second, third = await legacy.add_workers(3)
    path = "/spec/workerGroupSpecs/0/scaleStrategy/workersToDelete"
    named = [second, "example-workers-worker-gone1"]  # KubeRay has deleted the other one already
    await world.user.json_patch(
        RAYCLUSTERS, world.namespace, "example", [{"op": "add", "path": path, "value": named}]
    )
    await take_over(world)
    assert touched(world, legacy) == ([], [second])
    names = {pod.metadata.name for pod in await pods(world)}
    assert names >= {first, third}
    spec = (await world.cluster()).spec["workerGroupSpecs"][0]
    assert spec["scaleStrategy"]["workersToDelete"] == named, "only the autoscaler clears its list"


async def test_a_suspension_that_was_half_done_is_completed(world: World):
    manifest = example_cluster()
    manifest["spec"]["suspend"] = True
    legacy = Legacy(world, manifest)
    await legacy.create(status=ready_status(suspending=True))
    await legacy.add_workers(1)  # the head is gone already
    await take_over(world)
    made, gone = touched(world, legacy)
    assert (made, gone) == ([], legacy.pods)
    assert (await world.cluster()).status["state"] == "suspended"


async def test_under_recreate_a_head_of_kuberay_is_stamped_anew_and_nothing_else(world: World):
    manifest = example_cluster()
    manifest["spec"]["upgradeStrategy"] = {"type": "Recreate"}
    legacy = Legacy(world, manifest)
    await legacy.create()
    head = await legacy.add_head()
    await legacy.add_workers(2)
    await take_over(world)
    assert touched(world, legacy) == ([], [])
    annotations = (await world.user.get(PODS, world.namespace, head)).metadata.annotations or {}
    assert annotations[HASH].startswith("3-")
    assert annotations["ray.io/kuberay-version"].startswith("manta-")


async def test_half_a_slice_of_kuberay_goes_whole_and_is_made_anew_once(world: World):
    legacy = Legacy(world, multi_host(2))
    await legacy.create()
    await legacy.add_head()
    await legacy.add_slice(0, 2)
    half = await legacy.add_slice(1, 1)
    await take_over(world)
    made, gone = touched(world, legacy)
    assert (len(made), gone) == (2, half)
    hosts = await labels_of(world, "ray.io/replica-host-index")
    assert hosts == ["0", "0", "1", "1", "None"]


async def kuberays_view(world: World) -> list[str]:
    services = (await world.user.list(SERVICES, world.namespace)).items
    return unrest(await world.cluster(), await pods(world), list(services))


async def test_handed_back_a_cluster_that_manta_made_leaves_kuberay_nothing_to_do(world: World):
    for manifest in (example_cluster(replicas=3), multi_host(2), autoscaled(2)):
        manifest["spec"]["upgradeStrategy"] = {"type": "Recreate"}
        operator = world.start_operator()
        await world.user.create(RAYCLUSTERS, world.namespace, manifest)
        await world.eventually(world.is_ready)
        assert await operator.stop() == 0
        assert await kuberays_view(world) == []
        await world.user.delete(RAYCLUSTERS, world.namespace, "example")
        await world.eventually(world.is_gone)


async def test_there_and_back_again_not_one_pod_was_touched(world: World):
    legacy = Legacy(world)
    await legacy.create()
    await legacy.add_head()
    await legacy.add_workers(2)
    await legacy.all_ready()
    assert await kuberays_view(world) == []
    operator = await take_over(world)
    assert await operator.stop() == 0
    assert await kuberays_view(world) == []
    assert touched(world, legacy) == ([], [])
    status = (await world.cluster()).status
    theirs = {each["type"] for each in ready_status()["conditions"]}
    assert theirs <= {each["type"] for each in status["conditions"]}
    assert VERSION.startswith("v"), "so that no version of theirs is one of ours"
