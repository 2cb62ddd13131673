"""The head service leads to a ready head at every moment, whatever is edited meanwhile."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from controller.devcluster.apiserver.store import StoredEvent
from controller.kube.objects import Pod
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import RAYCLUSTERS, labels
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


async def test_a_head_whose_label_is_edited_is_found_again_and_one_that_leaves_is_reported():
    async with embedded_world() as world:
        rolling = RollingWorld(world, rolling_manifest(1), refereed=False)
        rolling.start_operator()
        await rolling.create()
        name = head(rolling).metadata.name

        async def label(**changed: str) -> None:
            patch = {"metadata": {"labels": changed}}
            await world.user.merge_patch(PODS, world.namespace, name, patch)
            await world.settle(10)

        await label(**{NAME: "by-hand"})
        assert await selected(rolling) == "by-hand"
        assert await ready(rolling) == ("True", "AllPodsReady")
        await label(**{labels.CLUSTER: "another"})
        assert await ready(rolling) == ("False", "HeadNotSelected")
        await label(**{labels.CLUSTER: "example"})
        assert await ready(rolling) == ("True", "AllPodsReady")


async def test_a_service_that_an_earlier_version_has_moved_is_moved_back():
    async with embedded_world() as world:
        rolling = RollingWorld(world, rolling_manifest(1), refereed=False)
        await world.user.create(RAYCLUSTERS, world.namespace, rolling.manifest)
        operator = rolling.start_operator()
        await world.eventually(world.is_ready, seconds=300, pause=0.5)
        await operator.stop()
        patch = {"spec": {"selector": {NAME: "moved"}}}
        await world.user.merge_patch(SERVICES, world.namespace, SERVICE, patch)
        rolling.start_operator()
        await world.settle(30)
        assert await selected(rolling) == "kuberay"
        assert await ready(rolling) == ("True", "AllPodsReady")
