"""Workers look for the GCS where the head that is there listens, whatever is edited meanwhile."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import embedded_world
from tests.integration.rolling import RollingWorld, rolling_manifest

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

Json = dict[str, Any]


async def edit(rolling: RollingWorld, *, port: str, workers: int = 1, **env: str) -> None:
    """Change the port of the GCS and the number of workers."""
    spec = copy.deepcopy((await rolling.world.cluster()).spec)
    spec["headGroupSpec"]["rayStartParams"] = {"port": port}
    group = spec["workerGroupSpecs"][0]
    group["replicas"] = workers
    ray = group["template"]["spec"]["containers"][0]
    ray["env"] = [{"name": name, "value": value} for name, value in env.items()]
    world = rolling.world
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", {"spec": spec})


async def ports(rolling: RollingWorld) -> Json:
    """The port of each pod that is not terminating, by the name of the pod."""
    found: Json = {}
    for pod in (await rolling.world.user.list(PODS, rolling.world.namespace)).items:
        if pod.metadata.terminating:
            continue
        (ray,) = (each for each in pod.spec.containers if each.name.startswith("ray-"))
        found[pod.metadata.name] = next(e.value for e in ray.env if e.name == "RAY_PORT")
    return found


def head_of(found: Json) -> str:
    (name,) = (each for each in found if "-head-" in each)
    return name


@pytest.mark.parametrize("strategy", ["None", "RollingUpdate"])
async def test_a_new_worker_joins_the_running_head_and_all_follow_a_new_one(strategy: str):
    manifest = rolling_manifest(1)
    manifest["spec"]["upgradeStrategy"] = {"type": strategy}
    async with embedded_world() as world:
        rolling = RollingWorld(world, manifest, refereed=False)
        rolling.start_operator()
        await rolling.create()
        before = await ports(rolling)

        await edit(rolling, port="6380", workers=2)
        await world.settle(60)
        during = await ports(rolling)
        assert before.items() <= during.items()
        assert sorted(during.values()) == ["6379"] * 3

        await world.user.delete(PODS, world.namespace, head_of(during))
        await world.settle(120)
        await world.eventually(world.is_ready)
        after = await ports(rolling)
        assert sorted(after.values()) == ["6380"] * 3
        assert not after.keys() & during.keys()

        await world.settle(120)
        assert await ports(rolling) == after


async def test_a_head_that_the_upgrade_replaces_gets_workers_of_its_port():
    async with embedded_world() as world:
        rolling = RollingWorld(world, rolling_manifest(2, fault_tolerant=True), refereed=False)
        rolling.start_operator()
        await rolling.create()
        await edit(rolling, port="6380", workers=2)
        await world.settle(300)
        await world.eventually(world.is_ready)
        assert sorted((await ports(rolling)).values()) == ["6380"] * 3


async def test_a_port_that_a_user_has_given_to_the_workers_is_theirs():
    manifest = rolling_manifest(1)
    manifest["spec"]["upgradeStrategy"] = {"type": "None"}
    async with embedded_world() as world:
        rolling = RollingWorld(world, manifest, refereed=False)
        rolling.start_operator()
        await rolling.create()
        before = await ports(rolling)
        await edit(rolling, port="6379", workers=2, RAY_PORT="7000")
        await world.settle(120)
        after = await ports(rolling)
        assert before.items() <= after.items()
        assert sorted(after.values()) == ["6379", "6379", "7000"]
