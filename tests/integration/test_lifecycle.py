"""A RayCluster from its manifest to nothing left, on whichever API server there is."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.resources import PODS, SERVICES
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import Lag, Rule
from tests.integration.harness import World, example_cluster


async def test_a_manifest_becomes_a_ready_cluster_with_status(world: World):
    world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)

    cluster = await world.cluster()
    status = cluster.status
    assert status["desiredWorkerReplicas"] == 2
    assert status["readyWorkerReplicas"] == 2
    assert status["observedGeneration"] == cluster.metadata.generation
    assert status["head"]["podName"].startswith("example-head-")
    assert status["endpoints"]["dashboard"]
    service = await world.user.get(SERVICES, world.namespace, "example-head-svc")
    assert service.metadata.controller is not None
    assert service.metadata.controller.uid == cluster.metadata.uid
    assert len(world.journal.created) == 3


@pytest.mark.vital
async def test_scaling_up_and_down_makes_and_removes_just_the_difference(world: World):
    world.start_operator()
    await world.create_cluster(replicas=1)
    await world.eventually(world.is_ready)

    await world.scale(4)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 4)
    await world.scale(2)
    await world.eventually(lambda: len(world.journal.present) == 3)

    assert world.journal.workers_created() == 4
    assert world.journal.workers_deleted() == 2


@pytest.mark.vital
async def test_deleting_the_cluster_leaves_nothing(world: World):
    world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    await world.user.delete(RAYCLUSTERS, world.namespace, "example")
    await world.eventually(world.is_gone)


@pytest.mark.vital
async def test_an_invalid_cluster_says_why_on_the_object_and_harms_nobody(world: World):
    world.start_operator()
    bad = example_cluster("bad")
    bad["spec"]["workerGroupSpecs"][0]["labels"] = {"no key": "x"}
    await world.user.create(RAYCLUSTERS, world.namespace, bad)
    await world.create_cluster("good", replicas=1)

    await world.eventually(lambda: world.is_ready("good"))

    async def explained() -> bool:
        conditions = (await world.cluster("bad")).status.get("conditions", [])
        return any("labels[no key]" in condition.get("message", "") for condition in conditions)

    await world.eventually(explained)


@pytest.mark.vital
async def test_a_new_operator_takes_over_without_touching_anything(world: World):
    first = world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    assert await first.stop() == 0

    await world.scale(3)
    world.start_operator()
    await world.eventually(lambda: len(world.journal.ready_workers()) == 3)
    assert len(world.journal.created) == 4
    assert not world.journal.marked


async def test_a_writer_of_the_old_version_drops_no_newer_field(world: World):
    world.start_operator()
    manifest = example_cluster(replicas=1)
    newer = {"managedBy": "ray.io/kuberay-operator", "upgradeStrategy": {"type": "None"}}
    manifest["spec"] |= newer
    await world.user.create(RAYCLUSTERS, world.namespace, manifest)
    await world.eventually(world.is_ready)

    path = f"/apis/ray.io/v1alpha1/namespaces/{world.namespace}/rayclusters/example"
    old = await world.user.request_json("GET", path)
    old["spec"]["workerGroupSpecs"][0]["replicas"] = 2
    await world.user.request_json("PUT", path, body=old)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 2)
    assert newer.items() <= (await world.cluster()).spec.items()
    assert (await world.cluster()).status["conditions"], "nor does it drop the status"


# -- a suspension frees what a cluster uses, also beside an edit that is refused for another fiel --


async def edit(world: World, **spec: Any) -> None:
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", {"spec": spec})
    await world.settle(30)


async def pods(world: World) -> int:
    return len((await world.user.list(PODS, world.namespace)).items)


# -- the bug that Manta exists to make impossible: acting on a cache that lags behind --------------


LAG_SECONDS = 10.0


@pytest.mark.vital
@pytest.mark.timeout(240)
async def test_with_pod_events_ten_seconds_late_exactly_the_difference_is_made(world: World):
    world.start_operator(rules=[Rule(Lag(LAG_SECONDS), resource="pods")])
    await world.create_cluster(replicas=1)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 1, seconds=90)

    await world.scale(10)
    await world.eventually(lambda: len(world.journal.workers()) == 10, seconds=90)
    assert world.journal.workers_created() == 10

    await world.scale(3)
    await world.eventually(lambda: len(world.journal.workers()) == 3, seconds=90)
    # The caches catch up only now: whatever they still make the operator do would show here.
    await world.eventually(lambda: len(world.journal.present) == 4, seconds=90)
    await world.settle(2 * LAG_SECONDS + 5)

    assert world.journal.workers_created() == 10
    assert world.journal.workers_deleted() == 7
    assert world.journal.most_live_heads == 1
