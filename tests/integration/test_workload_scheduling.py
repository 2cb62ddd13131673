"""Kubernetes' own gangs: the real scheduler starts a cluster whole, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import POD_GROUPS, PODS, WORKLOADS
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.batch_schedulers import WORKLOAD_API
from controller.ray.cluster import RayClusterKind
from controller.ray.settings import RaySettings
from tests.integration.harness import World, example_cluster, real_world
from tests.integration.machines import Machines
from tests.lab.control_plane import ControlPlane, control_plane
from tests.lab.session import needs

pytestmark = [
    pytest.mark.real_only,
    pytest.mark.vital,
    pytest.mark.timeout(300),
    needs("kube-scheduler"),
]

SERVED = "--runtime-config=scheduling.k8s.io/v1alpha2=true"
WORKLOADS_GATE = "--feature-gates=GenericWorkload=true"
GANGS_GATE = "--feature-gates=GenericWorkload=true,GangScheduling=true"


@contextmanager
def plane_with_gangs(folder: Path) -> Generator[ControlPlane]:
    """A control plane of its own: the shared one is without these alpha features."""
    with (
        control_plane(folder, controllers=False, flags=(SERVED, WORKLOADS_GATE)) as plane,
        plane.controller_manager("*", "-nodeipam", flags=(WORKLOADS_GATE,)),
        plane.scheduler(GANGS_GATE),
    ):
        yield plane


@pytest.fixture
async def machines(tmp_path: Path) -> AsyncIterator[Machines]:
    with plane_with_gangs(tmp_path) as plane:
        async with real_world(str(plane.kubeconfig), components=frozenset()) as world:
            machines = Machines(world)
            try:
                yield machines
            finally:
                await machines.aclose()


def cluster(name: str, replicas: int, *, gang: bool) -> dict[str, Any]:
    """A head and workers that need a CPU each."""
    manifest = example_cluster(name, replicas=replicas)
    manifest["metadata"]["labels"] = {"ray.io/gang-scheduling-enabled": "true"} if gang else {}
    return manifest


async def pods_of(world: World, name: str) -> list[Pod]:
    found = (await world.user.list(PODS, world.namespace)).items
    return [pod for pod in found if (pod.metadata.labels or {}).get("ray.io/cluster") == name]


def bound(pods: list[Pod]) -> int:
    return sum(bool(pod.spec.node_name) for pod in pods)


async def test_a_cluster_that_does_not_fit_starts_no_pod_and_then_starts_whole(machines: Machines):
    world = machines.world
    world.start_operator(kind=RayClusterKind(RaySettings(batch_scheduler=WORKLOAD_API)))
    await machines.add("first", cpu="2")
    await world.user.create(RAYCLUSTERS, world.namespace, cluster("gang", 2, gang=True))

    async def is_held() -> bool:
        pods = await pods_of(world, "gang")
        waits = [each for pod in pods for each in pod.status.conditions if each.status == "False"]
        return len(pods) == 3 and len([e for e in waits if e.type == "PodScheduled"]) == 3

    await world.eventually(is_held, pause=0.5)
    await world.settle(5)
    assert bound(await pods_of(world, "gang")) == 0  # one CPU more and it would fit

    # The head of a cluster that is no gang starts at once: nothing else holds these pods up.
    await world.user.create(RAYCLUSTERS, world.namespace, cluster("single", 0, gang=False))
    await world.becomes(
        lambda: pods_of(world, "single"), lambda found: bound(found) == 1, pause=0.5
    )
    await world.user.delete(RAYCLUSTERS, world.namespace, "single")
    assert bound(await pods_of(world, "gang")) == 0

    await machines.add("second", cpu="4")
    await world.eventually(lambda: world.is_ready("gang"), seconds=120, pause=0.5)
    before = {pod.metadata.uid for pod in await pods_of(world, "gang")}

    # Another size needs another Workload, which leaves the pods alone.
    await world.scale(3, "gang")
    await world.becomes(
        lambda: pods_of(world, "gang"), lambda found: bound(found) == 4, seconds=120, pause=0.5
    )
    assert before < {pod.metadata.uid for pod in await pods_of(world, "gang")}
    group = await world.user.get(POD_GROUPS, world.namespace, "gang-cluster")
    assert group.spec.scheduling_policy == {"gang": {"minCount": 4}}

    off = {"metadata": {"labels": {"ray.io/gang-scheduling-enabled": None}}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "gang", off)

    async def nothing_is_left() -> bool:
        workloads = await world.user.list(WORKLOADS, world.namespace)
        groups = await world.user.list(POD_GROUPS, world.namespace)
        return not (workloads.items or groups.items)

    await world.eventually(nothing_is_left, pause=0.5)
    assert bound(await pods_of(world, "gang")) == 4
