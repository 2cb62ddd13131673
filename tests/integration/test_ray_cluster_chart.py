"""What KubeRay's chart `ray-cluster` renders is served."""

from __future__ import annotations

import pytest

from controller.ray.api import RAYCLUSTERS
from tests.chart.helm import KUBERAY_CHARTS, needs_helm, needs_kuberay_charts, only, rendered
from tests.integration.harness import World

pytestmark = [pytest.mark.slow, needs_helm, needs_kuberay_charts]

MORE = (
    "additionalWorkerGroups.smallGroup.disabled=false",
    "head.enableInTreeAutoscaling=true",
    "gcsFaultTolerance.enabled=true",
    "gcsFaultTolerance.redisAddress=redis:6379",
)


@pytest.mark.parametrize(("values", "groups"), [((), 1), (MORE, 2)], ids=["plain", "more"])
async def test_the_cluster_of_the_chart_becomes_ready(
    world: World, values: tuple[str, ...], groups: int
):
    objects = rendered(KUBERAY_CHARTS / "ray-cluster", *values, namespace=world.namespace)
    manifest = only("RayCluster", objects)
    assert len(manifest["spec"]["workerGroupSpecs"]) == groups
    name = manifest["metadata"]["name"]
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, manifest)
    await world.eventually(lambda: world.is_ready(name))
    wanted = sum(group["replicas"] for group in manifest["spec"]["workerGroupSpecs"])
    assert len(world.journal.ready_workers()) == wanted
    conditions = (await world.cluster(name)).status["conditions"]
    assert ("Ready", "True") in {(each["type"], each["status"]) for each in conditions}
