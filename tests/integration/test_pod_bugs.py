"""What went wrong with pods in other operators, played on the whole operator."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.kube.resources import CONFIG_MAPS, PODS
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import Lag, Rule
from tests.integration.harness import (
    RunningOperator,
    World,
    example_cluster,
)

pytestmark = pytest.mark.slow

LAG = 5.0


def lagging() -> Rule:
    return Rule(Lag(LAG), resource="pods")


def deletes(operator: RunningOperator) -> int:
    sent = (entry.attributes for entry in operator.transport.journal.writes)
    return sum(about.verb == "delete" and about.resource == "pods" for about in sent)


async def change(world: World, **spec: Any) -> None:
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", {"spec": spec})


async def is_suspended(world: World) -> bool:
    return (await world.condition("RayClusterSuspended"))["status"] == "True"


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


KIND = "ChildrenAsSpecified"


@pytest.mark.embedded_only
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


@pytest.mark.embedded_only
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


@pytest.mark.embedded_only
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
