"""StatefulSets keep the names of their pods; Deployments roll from one ReplicaSet to the next."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from devcluster.nodes import COMPONENTS, NodeSettings, run_nodes
from devcluster.nodes.objects import (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ControlledStatefulSet,
)
from devcluster.nodes.pods import PODS, KubeletPod
from devcluster.nodes.workloads import (
    REVISION_LABEL,
    DeploymentController,
    ReplicaSetController,
    StatefulSetController,
    claim_bodies,
    numbered_pod,
    plan_stateful_set,
    revision,
)
from tests.devcluster.nodes.conftest import World


def template(image: str = "i:1") -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "s"}},
        "spec": {"containers": [{"name": "m", "image": image}]},
    }


def stateful_set(replicas: int = 3, *, image: str = "i:1", **spec: Any) -> ControlledStatefulSet:
    body = {
        "metadata": {"name": "s", "namespace": "default", "uid": "u-s", "generation": 4},
        "spec": {"replicas": replicas, "template": template(image), **spec},
    }
    return msgspec.convert(body, ControlledStatefulSet)


OLD, NEW = revision(stateful_set(image="i:0")), revision(stateful_set())


def pod(
    number: int, *, ready: bool = True, of: str = NEW, going: bool = False, phase: str = "Running"
) -> KubeletPod:
    body = {
        "metadata": {
            "name": f"s-{number}",
            "namespace": "default",
            "labels": {REVISION_LABEL: of},
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}),
        },
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
    return msgspec.convert(body, KubeletPod)


def numbers(pods: tuple[KubeletPod, ...]) -> list[int]:
    return [int(each.metadata.name.removeprefix("s-")) for each in pods]


@pytest.mark.parametrize(
    ("wanted", "parallel", "pods", "creates", "deletes"),
    [
        (3, True, [], [0, 1, 2], []),
        (3, False, [], [0], []),
        (3, False, [pod(0)], [1], []),
        (3, False, [pod(0, ready=False)], [], []),
        (3, True, [pod(0, ready=False)], [1, 2], []),
        (3, False, [pod(0), pod(2, ready=False)], [1], []),
        (3, True, [pod(0), pod(1), pod(2)], [], []),
        (1, True, [pod(0), pod(1), pod(2)], [], [1, 2]),
        (1, False, [pod(0), pod(1), pod(2)], [], [2]),
        (1, False, [pod(0), pod(1), pod(2, going=True)], [], []),
        (0, True, [pod(0)], [], [0]),
        (1, True, [pod(0, phase="Failed")], [], [0]),
        (1, True, [pod(0, phase="Failed", going=True)], [], []),
        (1, True, [pod(0, going=True)], [], []),
    ],
)
def test_which_pods_are_created_and_deleted(
    wanted: int, parallel: bool, pods: list[KubeletPod], creates: list[int], deletes: list[int]
):
    policy = "Parallel" if parallel else "OrderedReady"
    planned = stateful_set(wanted, podManagementPolicy=policy)
    plan = plan_stateful_set(planned, pods)
    assert (list(plan.creates), numbers(plan.deletes)) == (creates, deletes)


@pytest.mark.parametrize(
    ("pods", "deletes"),
    [
        ([pod(0, of=OLD), pod(1, of=OLD), pod(2, of=OLD)], [2]),
        ([pod(0, of=OLD), pod(1, of=OLD), pod(2)], [1]),
        ([pod(0, of=OLD), pod(1, of=OLD), pod(2, ready=False)], []),
        ([pod(0), pod(1), pod(2, of=OLD, ready=False)], [2]),
        ([pod(0), pod(1), pod(2)], []),
    ],
)
def test_an_update_replaces_one_pod_at_a_time_from_the_last(
    pods: list[KubeletPod], deletes: list[int]
):
    assert numbers(plan_stateful_set(stateful_set(), pods).deletes) == deletes
    by_hand = stateful_set(updateStrategy={"type": "OnDelete"})
    assert plan_stateful_set(by_hand, pods).deletes == ()


def test_a_pod_has_its_number_its_revision_and_the_claims_of_its_own():
    claims = [{"metadata": {"name": "disk"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    given = stateful_set(volumeClaimTemplates=claims, serviceName="net")
    body = numbered_pod(given, 2)
    assert body["metadata"]["name"] == "s-2"
    assert body["metadata"]["labels"] == {
        "app": "s",
        "statefulset.kubernetes.io/pod-name": "s-2",
        "apps.kubernetes.io/pod-index": "2",
        REVISION_LABEL: NEW,
    }
    assert (body["spec"]["hostname"], body["spec"]["subdomain"]) == ("s-2", "net")
    claim = {"claimName": "disk-s-2"}
    assert body["spec"]["volumes"] == [{"name": "disk", "persistentVolumeClaim": claim}]
    assert claim_bodies(given, 2)["disk"]["metadata"]["name"] == "disk-s-2"
    assert "volumes" not in given.spec.template["spec"]


@asynccontextmanager
async def controlled(world: World) -> AsyncGenerator[None]:
    async with run_nodes(
        world.client("nodes", world.recorder),
        clock=world.loop,
        wall=world.wall,
        rng=random.Random(2),
        settings=NodeSettings(),
        components=COMPONENTS,
        others=[StatefulSetController],
    ):
        yield


async def create(world: World, **spec: Any) -> None:
    body = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s"},
        "spec": {
            "serviceName": "net",
            "selector": {"matchLabels": {"app": "s"}},
            "template": template(),
            **spec,
        },
    }
    await world.user.create(STATEFUL_SETS, "default", body)


async def status(world: World) -> Any:
    return (await world.user.get(STATEFUL_SETS, "default", "s")).status


async def test_a_set_becomes_ready_is_updated_shrinks_and_goes_with_its_pods(world: World):
    async with controlled(world):
        await create(world, replicas=2)
        await asyncio.sleep(20)
        assert (await status(world)).ready_replicas == 2
        first = {each.metadata.uid for each in (await world.user.list(PODS, "default")).items}

        update = {"spec": {"template": template("i:2")}}
        await world.user.merge_patch(STATEFUL_SETS, "default", "s", update)
        await asyncio.sleep(40)
        found = await status(world)
        assert (found.ready_replicas, found.updated_replicas) == (2, 2)
        assert found.current_revision == found.update_revision
        pods = (await world.user.list(PODS, "default")).items
        assert first.isdisjoint(each.metadata.uid for each in pods)

        await world.user.merge_patch(STATEFUL_SETS, "default", "s", {"spec": {"replicas": 1}})
        await asyncio.sleep(10)
        assert await world.is_gone(PODS, "s-1")
        assert (await status(world)).replicas == 1

        await world.user.delete(STATEFUL_SETS, "default", "s")
        await asyncio.sleep(10)
        assert await world.is_gone(PODS, "s-0")


async def test_a_set_at_rest_is_not_written(world: World):
    async with controlled(world):
        await create(world, replicas=1)
        await asyncio.sleep(20)
        before = len(world.recorder.writes)
        note = {"metadata": {"annotations": {"note": "of somebody else"}}}
        await world.user.merge_patch(PODS, "default", "s-0", note)
        await asyncio.sleep(1000)
        assert len(world.recorder.writes) == before


@asynccontextmanager
async def deploying(world: World) -> AsyncGenerator[None]:
    async with run_nodes(
        world.client("nodes", world.recorder),
        clock=world.loop,
        wall=world.wall,
        rng=random.Random(2),
        settings=NodeSettings(),
        components=COMPONENTS,
        others=[ReplicaSetController, DeploymentController],
    ):
        yield


def deployment(image: str = "redis:1", **spec: Any) -> dict[str, Any]:
    labels = {"app": "d"}
    pod = {"containers": [{"name": "main", "image": image}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **spec,
        },
    }


async def images(world: World) -> list[str]:
    pods = (await world.user.list(PODS, "default")).items
    return sorted(pod.spec.containers[0].image for pod in pods)


async def change(world: World, **spec: Any) -> None:
    await world.user.merge_patch(DEPLOYMENTS, "default", "d", {"spec": spec})


async def test_a_deployment_has_its_pods_and_says_when_they_are_available(world: World):
    async with deploying(world):
        await world.user.create(DEPLOYMENTS, "default", deployment())
        await asyncio.sleep(1)
        status = (await world.user.get(DEPLOYMENTS, "default", "d")).status
        assert (status.replicas, status.available_replicas) == (3, 0)
        await asyncio.sleep(5)
        status = (await world.user.get(DEPLOYMENTS, "default", "d")).status
        assert (status.updated_replicas, status.available_replicas) == (3, 3)
        assert [(each.type, each.status) for each in status.conditions] == [("Available", "True")]
        await change(world, replicas=1)
        await asyncio.sleep(5)
        assert len(await images(world)) == 1


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
async def test_a_new_template_replaces_all_pods(world: World, strategy: str):
    async with deploying(world):
        manifest = deployment(strategy={"type": strategy})
        await world.user.create(DEPLOYMENTS, "default", manifest)
        await asyncio.sleep(5)
        await change(world, template=deployment("redis:2")["spec"]["template"])
        await asyncio.sleep(1.2)
        before = await images(world)
        assert ("redis:1" in before and "redis:2" in before) == (strategy == "RollingUpdate")
        await asyncio.sleep(10)
        assert await images(world) == ["redis:2"] * 3


async def test_all_of_it_goes_with_the_deployment(world: World):
    async with deploying(world):
        await world.user.create(DEPLOYMENTS, "default", deployment())
        await asyncio.sleep(5)
        await world.user.delete(DEPLOYMENTS, "default", "d", propagation="Background")
        await asyncio.sleep(10)
        assert await images(world) == []
        assert (await world.user.list(REPLICA_SETS, "default")).items == []
