"""The collector of the history server, turned on and off on a living cluster."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.names import COLLECTOR
from tests.integration.harness import World, example_cluster

STORAGE = {"STORAGE_BACKEND": "s3", "S3_REGION": "eu-west-1", "S3_BUCKET": "rays"}
ENV = [{"name": name, "value": value} for name, value in STORAGE.items()]
ON: dict[str, Any] = {"collectorOptions": {"image": "collector", "env": ENV}}


async def start(world: World, **spec: Any) -> None:
    body = example_cluster(replicas=2)
    body["spec"] |= spec
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, body)
    await world.eventually(world.is_ready, seconds=90)


async def edit(world: World, options: dict[str, Any] | None) -> None:
    body = {"spec": {"historyServerOptions": options}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", body)
    await world.settle(5)


def collected(world: World) -> dict[str, bool]:
    """Whether each pod has a collector."""
    return {
        uid: COLLECTOR in {each.name for each in pod.spec.containers}
        for uid, pod in world.journal.present.items()
    }


async def replace_worker(world: World, uid: str) -> None:
    pod = world.journal.present[uid]
    await world.user.delete(PODS, world.namespace, pod.metadata.name)
    await world.eventually(lambda: uid not in world.journal.present, seconds=90)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 2, seconds=90)


async def test_turned_on_and_off_it_touches_no_pod_and_new_ones_follow(world: World):
    await start(world)
    before = collected(world)
    first = world.journal.ready_workers()[0].metadata.uid
    await edit(world, ON)
    assert collected(world) == before == dict.fromkeys(before, False)
    await replace_worker(world, first)
    (second,) = (uid for uid, has_collector in collected(world).items() if has_collector)
    await edit(world, None)
    assert second in collected(world)
    await replace_worker(world, second)
    assert set(collected(world).values()) == {False}


@pytest.mark.slow
async def test_under_recreate_all_pods_are_replaced_as_by_kuberay(world: World):
    await start(world, upgradeStrategy={"type": "Recreate"})
    for options in (ON, None):
        before = collected(world)
        await edit(world, options)
        await world.eventually(
            lambda before=before: not before.keys() & collected(world).keys(), seconds=90
        )
        await world.eventually(world.is_ready, seconds=90)
        assert set(collected(world).values()) == {options is not None}
