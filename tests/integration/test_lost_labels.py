"""Pods that lose a label by which they are watched or recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controller.kube.resources import PODS

if TYPE_CHECKING:
    from tests.integration.harness import World

pytestmark = pytest.mark.embedded_only


@pytest.mark.slow
@pytest.mark.parametrize("label", ["ray.io/node-type", "ray.io/cluster"])
async def test_EXP24_a_pod_that_lost_a_label_keeps_its_place_and_the_operator_is_ready(
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


async def test_EXP24_a_pod_outside_of_the_selection_is_read_every_half_minute(world: World):
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
