"""What went wrong with pods in other operators, played on the whole operator."""

from __future__ import annotations

from typing import Any

import pytest

from controller.devcluster.nodes import NodeSettings
from controller.kube.objects import Pod
from controller.kube.resources import CONFIG_MAPS, PODS
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import Lag, Rule
from tests.integration.harness import (
    RunningOperator,
    World,
    embedded_world,
    example_cluster,
    live,
    role,
)

pytestmark = pytest.mark.slow

LAG = 5.0


def lagging() -> Rule:
    return Rule(Lag(LAG), resource="pods")


def the_head(world: World) -> Pod:
    (head,) = [pod for pod in world.journal.present.values() if role(pod) == "head" and live(pod)]
    return head


def deletes(operator: RunningOperator) -> int:
    sent = (entry.attributes for entry in operator.transport.journal.writes)
    return sum(about.verb == "delete" and about.resource == "pods" for about in sent)


async def change(world: World, **spec: Any) -> None:
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", {"spec": spec})


async def is_suspended(world: World) -> bool:
    return (await world.condition("RayClusterSuspended"))["status"] == "True"


@pytest.mark.embedded_only
async def test_scaling_down_twice_while_pods_are_going_removes_just_the_sum():
    async with embedded_world(nodes=NodeSettings(termination_delay=20.0)) as world:
        operator = world.start_operator(rules=[lagging()])
        await world.create_cluster(replicas=10)
        await world.eventually(lambda: len(world.journal.ready_workers()) == 10, seconds=120)
        await world.settle(2 * LAG)
        await world.scale(8)
        await world.settle(1)
        await world.scale(5)
        await world.settle(120)
        assert world.journal.workers_deleted() == deletes(operator) == 5
        assert world.journal.workers_created() == 10


async def test_a_worker_that_died_is_the_one_that_a_scale_down_takes(world: World):
    first = world.start_operator()
    await world.create_cluster(replicas=3)
    await world.eventually(world.is_ready)
    assert await first.stop() == 0
    dead = min(world.journal.workers(), key=lambda pod: pod.metadata.creation_timestamp or "")
    failed = {"status": {"phase": "Failed", "reason": "Evicted", "message": "out of memory"}}
    name = dead.metadata.name
    await world.scale(2)
    await world.user.merge_patch(PODS, world.namespace, name, failed, subresource="status")

    world.start_operator()
    await world.eventually(lambda: dead.metadata.uid not in world.journal.present)
    await world.settle(20)
    assert world.journal.marked == {dead.metadata.uid}
    assert len(world.journal.workers()) == 2
    assert world.journal.workers_created() == 3


async def test_a_suspension_deletes_each_pod_once_whatever_happened_before(world: World):
    operator = world.start_operator(rules=[lagging()])
    await world.create_cluster(replicas=3)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 3, seconds=90)
    for round_ in range(2):
        await change(world, suspend=True)
        await world.eventually(lambda: is_suspended(world), seconds=120)
        assert not world.journal.present, "nothing is left when it is said"
        assert deletes(operator) == 4 * (round_ + 1)
        await change(world, suspend=False)
        await world.eventually(lambda: len(world.journal.ready_workers()) == 3, seconds=90)
    assert len(world.journal.created) == 4 * 3
    assert world.journal.most_live_heads == 1


async def test_a_pod_that_has_left_the_selector_is_found_before_a_suspension_is_called_done(
    world: World,
):
    first = world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    assert await first.stop() == 0
    hidden = min(pod.metadata.name for pod in world.journal.workers())
    patch = {"metadata": {"labels": {"ray.io/node-type": None}}}
    await world.user.merge_patch(PODS, world.namespace, hidden, patch)

    world.start_operator()
    await change(world, suspend=True)
    await world.eventually(lambda: is_suspended(world), seconds=120)
    left = [pod.metadata.name for pod in world.journal.present.values()]
    assert hidden not in left


async def test_an_evicted_head_is_replaced_although_its_policy_is_always(world: World):
    world.start_operator()
    await world.create_cluster(replicas=1)
    await world.eventually(world.is_ready)
    evicted = the_head(world)
    status = {"phase": "Failed", "reason": "Evicted", "message": "low on resource: memory"}
    name = evicted.metadata.name
    await world.user.merge_patch(
        PODS, world.namespace, name, {"status": status}, subresource="status"
    )
    await world.eventually(lambda: _another_head(world, evicted))
    await world.eventually(world.is_ready)
    assert world.journal.most_live_heads == 1
    assert world.journal.workers_deleted() == 0


def _another_head(world: World, before: Pod) -> bool:
    heads = [p for p in world.journal.present.values() if role(p) == "head" and live(p)]
    return [pod.metadata.uid for pod in heads] not in ([], [before.metadata.uid])


async def test_a_head_that_ends_under_autoscaler_v2_comes_back_once(world: World):
    world.start_operator()
    manifest = example_cluster(replicas=1)
    manifest["spec"] |= {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}
    await world.user.create(RAYCLUSTERS, world.namespace, manifest)
    await world.eventually(world.is_ready)
    ended = the_head(world)
    annotations = {"sim.manta.dev/outcome": "crash", "sim.manta.dev/fail-after": "0"}
    patch = {"metadata": {"annotations": annotations | {"sim.manta.dev/exit-code": "137"}}}
    await world.user.merge_patch(PODS, world.namespace, ended.metadata.name, patch)
    await world.eventually(lambda: _another_head(world, ended))
    await world.settle(10)
    assert world.journal.most_live_heads == 1
    assert sum(role(pod) == "head" for pod in world.journal.created.values()) == 2
    assert world.journal.workers_deleted() == 0


async def test_a_head_whose_container_the_kubelet_restarts_is_not_replaced(world: World):
    world.start_operator()
    manifest = example_cluster(replicas=1)
    annotations = {"sim.manta.dev/outcome": "crash", "sim.manta.dev/fail-after": "3"}
    manifest["spec"]["headGroupSpec"]["template"]["metadata"] = {"annotations": annotations}
    await world.user.create(RAYCLUSTERS, world.namespace, manifest)
    await world.eventually(lambda: _restarts(world) >= 3, seconds=120)
    assert len(world.journal.created) == 2
    assert not world.journal.marked


def _restarts(world: World) -> int:
    heads = [pod for pod in world.journal.present.values() if role(pod) == "head"]
    return sum(each.restart_count for pod in heads for each in pod.status.container_statuses)


async def test_what_is_not_its_own_outlives_every_change_of_the_cluster(world: World):
    world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    cluster = await world.cluster()
    labels = {"cluster": "example", "group": "workers", "node-type": "worker"}
    mark = {"labels": {f"ray.io/{key}": value for key, value in labels.items()}}
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "example"}
    owners = {"ownerReferences": [owner | {"uid": cluster.metadata.uid}]}
    foreign = {
        "metadata": mark | {"name": "somebodys"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    pod_group = {"metadata": mark | owners | {"name": "pod-group"}}
    await world.user.create(PODS, world.namespace, foreign)
    await world.user.create(CONFIG_MAPS, world.namespace, pod_group)

    await world.scale(0)
    await world.eventually(lambda: len(world.journal.workers()) == 1)
    await change(world, suspend=True)
    await world.eventually(lambda: is_suspended(world), seconds=120)
    await change(world, suspend=False, upgradeStrategy={"type": "Recreate"}, rayVersion="2.53.0")
    await world.eventually(lambda: len(world.journal.heads.get("example", ())) == 1, seconds=120)
    await world.settle(10)

    assert not (await world.user.get(PODS, world.namespace, "somebodys")).metadata.terminating
    assert await world.user.get(CONFIG_MAPS, world.namespace, "pod-group")


async def test_a_head_whose_labels_are_taken_away_gets_no_second_one_while_it_runs(world: World):
    world.start_operator()
    await world.create_cluster()
    await world.eventually(world.is_ready)
    head = the_head(world)
    await world.user.merge_patch(
        PODS, world.namespace, head.metadata.name, {"metadata": {"labels": None}}
    )
    await world.settle(10)
    assert [pod.metadata.uid for pod in world.journal.created.values() if role(pod) == "head"] == [
        head.metadata.uid
    ]
    assert (await world.condition("ObservationInDoubt"))["status"] == "True"
    pod = await world.user.get(PODS, world.namespace, head.metadata.name)
    assert not pod.metadata.terminating


async def test_a_changed_specification_under_recreate_replaces_every_pod_once(world: World):
    world.start_operator(rules=[lagging()])
    manifest = example_cluster(replicas=3)
    manifest["spec"]["upgradeStrategy"] = {"type": "Recreate"}
    await world.user.create(RAYCLUSTERS, world.namespace, manifest)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 3, seconds=90)
    before = set(world.journal.created)
    await change(world, rayVersion="2.53.0")
    await world.eventually(lambda: before <= world.journal.marked, seconds=120)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 3, seconds=120)
    await world.settle(10)
    assert len(world.journal.created) == 2 * len(before)
    assert world.journal.most_live_heads == 1
