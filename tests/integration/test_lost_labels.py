"""Pods that lose a label by which they are watched or recognised."""

from __future__ import annotations

import pytest

from controller.apimachinery.conditions import find_condition
from controller.kube.resources import PODS
from tests.integration.harness import World

KIND = "ChildrenAsSpecified"

pytestmark = pytest.mark.embedded_only


@pytest.mark.slow
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


async def test_a_pod_outside_of_the_selection_is_read_every_half_minute(world: World):
    operator = world.start_operator()
    await world.create_cluster(replicas=1)
    await world.eventually(world.is_ready)
    [worker] = world.journal.workers()
    name = worker.metadata.name
    patch = {"metadata": {"labels": {"ray.io/node-type": None}}}
    await world.user.merge_patch(PODS, world.namespace, name, patch)
    await world.settle(60)
    before = operator.operator.expectations.statistics().live_reads
    await world.settle(900)
    reads = operator.operator.expectations.statistics().live_reads - before
    assert reads == pytest.approx(30, abs=2)

    patch = {"metadata": {"labels": {"ray.io/node-type": "worker"}}}
    await world.user.merge_patch(PODS, world.namespace, name, patch)
    await world.settle(5)
    assert operator.operator.expectations.statistics().expectations == 0
