"""Edits of the labels and the GCS port of a head cut no running head off its service."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import RAYCLUSTERS
from devcluster.apiserver.store import StoredEvent
from tests.integration.harness import embedded_world
from tests.integration.rolling import RollingWorld, rolling_manifest

pytestmark = pytest.mark.embedded_only

Json = dict[str, Any]
NAME = "app.kubernetes.io/name"
SERVICE = "example-head-svc"


@dataclass
class Watcher:
    """Compares the selector of the head service with each ready head, at every write."""

    wrong: list[str] = field(default_factory=list)
    _selector: Json = field(default_factory=dict)
    _heads: dict[str, Json] = field(default_factory=dict)

    def __call__(self, event: StoredEvent) -> None:
        body = event.current.object
        name = body["metadata"]["name"]
        if event.table == str(SERVICES) and name == SERVICE:
            self._selector = body["spec"]["selector"]
        elif event.table == str(PODS) and "-head-" in name:
            self._heads[name] = body
            if event.type == "DELETED" or body["metadata"].get("deletionTimestamp"):
                del self._heads[name]
        for head, found in self._heads.items():
            lacking = self._selector.items() - found["metadata"]["labels"].items()
            if lacking and is_ready(found):
                self.wrong.append(f"{head} is not selected by {lacking}")


def is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


@asynccontextmanager
async def a_cluster(strategy: str, *, fault_tolerant: bool = False) -> AsyncIterator[RollingWorld]:
    manifest = rolling_manifest(1, fault_tolerant=fault_tolerant)
    manifest["spec"]["upgradeStrategy"] = {"type": strategy}
    set_label(manifest["spec"], "conv")
    async with embedded_world() as world:
        watcher = Watcher()
        assert world.server is not None
        world.server.on_write.append(watcher)
        rolling = RollingWorld(world, manifest, refereed=False)
        rolling.start_operator()
        await rolling.create()
        await world.settle(5)
        yield rolling
        assert watcher.wrong == []


def set_label(spec: Json, value: str | None) -> None:
    metadata = spec["headGroupSpec"]["template"].setdefault("metadata", {})
    metadata["labels"] = {NAME: value}


async def edit(rolling: RollingWorld, value: str | None) -> None:
    spec = copy.deepcopy((await rolling.world.cluster()).spec)
    set_label(spec, value)
    await rolling.patch(spec)


async def selected(rolling: RollingWorld) -> str:
    world = rolling.world
    service = await world.user.get(SERVICES, world.namespace, SERVICE)
    return (service.spec.selector or {})[NAME]


async def ready(rolling: RollingWorld) -> tuple[str, str]:
    found = await rolling.world.condition()
    return found["status"], found["reason"]


def head(rolling: RollingWorld) -> Pod:
    (found,) = (pod for pod in rolling.rays.heads() if not pod.metadata.terminating)
    return found


@pytest.mark.parametrize(
    ("strategy", "fault_tolerant", "value", "follows"),
    [
        ("None", False, "conv2", False),
        ("None", False, None, False),
        ("RollingUpdate", False, "conv2", False),
        ("RollingUpdate", True, "conv2", True),
        ("Recreate", False, "conv2", True),
    ],
)
async def test_an_edited_label_moves_the_service_when_a_head_has_it(
    strategy: str, fault_tolerant: bool, value: str | None, follows: bool
):
    async with a_cluster(strategy, fault_tolerant=fault_tolerant) as rolling:
        first = head(rolling)
        await edit(rolling, value)
        await rolling.world.settle(300)
        assert (head(rolling).metadata.uid != first.metadata.uid) is follows
        assert await selected(rolling) == (value if follows else "conv")
        assert await ready(rolling) == ("True", "AllPodsReady")
        await rolling.world.user.delete(PODS, rolling.world.namespace, head(rolling).metadata.name)
        await rolling.world.settle(60)
        await rolling.world.eventually(rolling.world.is_ready)
        assert await selected(rolling) == (value or "kuberay")


async def edit_port(rolling: RollingWorld, *, port: str, workers: int = 1, **env: str) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["None", "RollingUpdate"])
async def test_a_new_worker_joins_the_running_head_and_all_follow_a_new_one(strategy: str):
    manifest = rolling_manifest(1)
    manifest["spec"]["upgradeStrategy"] = {"type": strategy}
    async with embedded_world() as world:
        rolling = RollingWorld(world, manifest, refereed=False)
        rolling.start_operator()
        await rolling.create()
        before = await ports(rolling)

        await edit_port(rolling, port="6380", workers=2)
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
