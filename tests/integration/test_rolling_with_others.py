"""Rolling updates beside others: KubeRay's definitions, clusters that KubeRay made, autoscalers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controller.ray.api import RAYCLUSTERS, labels
from tests.integration.definitions import kuberays_definition, put_in_place
from tests.integration.harness import World, embedded_world
from tests.integration.kuberay import Legacy
from tests.integration.rolling import IMAGE, RollingWorld, rolling_manifest
from tests.simulation.autoscaler import Autoscaler

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

ANNOTATED = {"metadata": {"annotations": {labels.UPGRADE_STRATEGY: "RollingUpdate"}}}


def uids(rolling: RollingWorld) -> set[str]:
    return {pod.metadata.uid for pod in rolling.workers()}


async def annotate(rolling: RollingWorld) -> None:
    """Ask for rolling updates as KubeRay's definition allows."""
    world = rolling.world
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", ANNOTATED)


def without_strategy(*groups: int, **more: Any) -> dict[str, Any]:
    manifest = rolling_manifest(*groups, **more)
    del manifest["spec"]["upgradeStrategy"]
    return manifest


async def test_with_kuberays_definition_an_annotation_asks_for_the_same() -> None:
    theirs = kuberays_definition()
    async with embedded_world() as world:
        await put_in_place(world, theirs)
        await world.settle(2)
        rolling = RollingWorld(world, without_strategy(2, 1))
        operator = rolling.start_operator()
        await rolling.create()
        before = uids(rolling)
        await annotate(rolling)
        await rolling.edit("new")
        await rolling.completes()
        assert not before & uids(rolling)
        assert world.journal.workers_created() == 6
        assert rolling.referee.wrong == []
        await world.settle(60)
        written = len(operator.transport.journal.writes)
        await world.settle(600)
        later = operator.transport.journal.writes[written:]
        assert [str(e) for e in later if "events" not in e.attributes.resource] == []


def legacy_manifest(**more: Any) -> dict[str, Any]:
    manifest = without_strategy(3, **more)
    manifest["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = IMAGE
    return manifest


async def taken_over(rolling: RollingWorld) -> Legacy:
    """A cluster as KubeRay leaves it."""
    legacy = Legacy(rolling.world, copy.deepcopy(rolling.manifest))
    await legacy.create()
    await legacy.add_head()
    await legacy.add_workers(3)
    await legacy.all_ready()
    return legacy


ROLL = {"upgradeStrategy": {"type": "RollingUpdate"}}


@pytest.mark.parametrize("definition", ["ours", "kuberays"])
async def test_a_cluster_taken_over_from_kuberay_is_rolled_once_and_only_after_an_edit(
    definition: str,
) -> None:
    theirs = kuberays_definition() if definition == "kuberays" else None
    async with embedded_world() as world:
        if theirs is not None:
            await put_in_place(world, theirs)
            await world.settle(2)
        rolling = RollingWorld(world, legacy_manifest(fault_tolerant=True))
        await taken_over(rolling)
        before = set(world.journal.present)
        rolling.start_operator()
        await world.settle(60)
        await (annotate(rolling) if theirs is not None else rolling.patch(ROLL))
        await world.settle(120)
        assert set(world.journal.present) == before, "nothing but the strategy has changed"
        await rolling.edit("new", head=True)
        await rolling.completes()
        await world.settle(60)
        assert not before & world.journal.present.keys()
        assert len(world.journal.created) == 2 * len(before) == 8
        assert world.journal.most_live_heads == 1
        assert rolling.referee.wrong == []


both = pytest.mark.parametrize("version", ["v1", "v2"])


async def autoscaled(
    world: World, version: str, demand: dict[str, int], *, idle_timeout: float = 0.0
) -> tuple[RollingWorld, Autoscaler]:
    """A cluster of two workers, and the autoscaler in its head."""
    manifest = rolling_manifest(2)
    manifest["spec"]["enableInTreeAutoscaling"] = True
    manifest["spec"]["autoscalerOptions"] = {"version": version}
    rolling = RollingWorld(world, manifest)
    rolling.start_operator()
    await rolling.create()
    return rolling, Autoscaler(
        world.client("autoscaler"),
        world.namespace,
        "example",
        version=version,
        demand=demand,
        idle_timeout=idle_timeout,
    )


@both
async def test_rays_autoscaler_decides_how_many_there_are_all_the_while(version: str) -> None:
    async with embedded_world() as world:
        demand = {"group-0": 2}
        rolling, autoscaler = await autoscaled(world, version, demand)

        async def scaled(workers: int) -> None:
            demand["group-0"] = workers

            async def reached() -> bool:
                await autoscaler.update()
                return len(rolling.workers()) == workers == len(world.journal.ready_workers())

            await world.eventually(reached, seconds=600, pause=0.5)

        await scaled(4)
        before = uids(rolling)
        await rolling.edit("new")
        for _ in range(20):
            await autoscaler.update()
            await world.settle(1)
        await scaled(3)
        await rolling.completes()
        await scaled(3)
        await world.settle(60)
        assert not before & uids(rolling)
        assert len(rolling.workers()) == 3
        assert autoscaler.returned == []


@both
async def test_rays_autoscaler_takes_no_surge_for_what_the_load_needs(version: str) -> None:
    async with embedded_world() as world:
        rolling, autoscaler = await autoscaled(world, version, {}, idle_timeout=2.0)
        before = uids(rolling)
        busy = {pod.metadata.uid: world.loop.time() + 60.0 for pod in rolling.workers()}
        rolling.nodes().work.update(busy)
        await rolling.edit("new")

        async def is_rolled() -> bool:
            await autoscaler.update()
            return await rolling.is_complete() and not before & uids(rolling)

        await world.eventually(is_rolled, seconds=1200, pause=2.0)
        (group,) = (await world.cluster()).spec["workerGroupSpecs"]
        assert group["replicas"] == len(rolling.workers()) == 2
        assert autoscaler.returned == []
