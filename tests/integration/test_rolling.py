"""Rolling updates of RayClusters, from the edit to the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import SERVICES
from controller.ray.api import labels
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import embedded_world
from tests.integration.rolling import RollingWorld, rolling_manifest
from tests.ray.dashboard.simulated import NEVER

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]


@asynccontextmanager
async def a_cluster(*groups: int, **options: Any) -> AsyncIterator[RollingWorld]:
    """A ready cluster with an operator, in which nothing may break a promise."""
    async with embedded_world() as world:
        rolling = RollingWorld(world, rolling_manifest(*groups, **options))
        rolling.start_operator()
        await rolling.create()
        yield rolling
        assert rolling.referee.wrong == []


def uids(pods: list[Pod]) -> set[str]:
    return {pod.metadata.uid for pod in pods}


async def test_workers_of_two_groups_are_replaced_once_and_within_the_budget() -> None:
    async with a_cluster(3, 2) as rolling:
        before = uids(rolling.workers())
        await rolling.edit("new")
        await rolling.completes()
        await rolling.world.settle(30)
        after = uids(rolling.workers())
        assert len(after) == 5
        assert not before & after
        assert rolling.world.journal.workers_created() == 10
        events = await rolling.events()
        assert events.count("UpgradeStarted") == 1
        assert events.count("UpgradeComplete") == 1
        assert (await rolling.condition())["status"] == "False"
        assert "upgrade" not in (await rolling.world.cluster()).status


async def test_each_worker_is_drained_before_its_pod_goes() -> None:
    async with a_cluster(2, drainTimeoutSeconds=100) as rolling:
        nodes = rolling.nodes()
        busy = {pod.metadata.uid: 1e9 for pod in rolling.workers()}
        nodes.work.update(busy)
        began = rolling.world.loop.time()
        await rolling.edit("new")
        await rolling.completes()
        assert rolling.world.loop.time() - began > 200  # two drains that take all their time
        assert len(nodes.drained) == 2


async def head_service(rolling: RollingWorld) -> tuple[str, Any]:
    """Uid and specification of the service that leads to the head, its address included."""
    world = rolling.world
    service = await world.user.get(SERVICES, world.namespace, "example-head-svc")
    return service.metadata.uid, service.spec


async def test_the_head_is_replaced_last_with_fault_tolerance() -> None:
    async with a_cluster(2, fault_tolerant=True) as rolling:
        world = rolling.world
        (head,) = rolling.rays.heads()
        front = await head_service(rolling)
        await rolling.edit("new", head=True)
        await rolling.completes()
        await world.eventually(world.is_ready)
        assert await head_service(rolling) == front, "workers find the new head where the old was"
        assert head.metadata.uid in world.journal.marked
        newest = max(p.metadata.creation_timestamp or "" for p in rolling.workers())
        (other,) = (pod for pod in rolling.rays.heads() if not pod.metadata.terminating)
        assert (other.metadata.creation_timestamp or "") >= newest
        assert world.journal.workers_created() == 4, "workers stay when the head goes"


async def test_a_cluster_with_surge_is_ready_all_the_while() -> None:
    async with a_cluster(3) as rolling:
        world = rolling.world
        before = await rolling.condition("Ready")
        await rolling.edit("new")
        await rolling.completes()
        await world.settle(5)
        assert (await rolling.condition("Ready"))["status"] == "True"
        after = await rolling.condition("Ready")
        assert after["lastTransitionTime"] == before["lastTransitionTime"]


async def test_an_actor_that_never_ends_keeps_its_worker_until_the_deadline() -> None:
    async with a_cluster(1, drainTimeoutSeconds=120) as rolling:
        (old,) = rolling.workers()
        rolling.nodes().work[old.metadata.uid] = NEVER
        await rolling.edit("new")

        async def drains() -> bool:
            return (await rolling.condition()).get("reason") == "Draining"

        await rolling.world.eventually(drains)
        assert (
            f"{old.metadata.name} is being drained; actors cannot be migrated"
            in (await rolling.condition())["message"]
        )
        await rolling.world.settle(100)
        assert old.metadata.uid in uids(rolling.workers())
        await rolling.world.settle(30)
        assert old.metadata.uid not in uids(rolling.workers())
        await rolling.completes()


async def test_the_turn_passes_on_while_writes_of_another_group_fail() -> None:
    async with a_cluster(1, 1, 1) as rolling:
        world = rolling.world
        (operator,) = world.operators
        refused = ErrorResponse(403, "Forbidden", "exceeded quota")
        creates = frozenset({"create"})
        rule = Rule(refused, "pods", creates, name=lambda name: "group-2" in name)
        operator.transport.rules.append(rule)
        spec = (await world.cluster()).spec
        spec["workerGroupSpecs"][2]["replicas"] = 2
        await rolling.patch(spec)
        await world.settle(30)
        before = {pod.metadata.uid for pod in rolling.workers()}
        await rolling.edit("new", 0, 1)
        await world.settle(120)
        kept = [pod for pod in rolling.workers() if pod.metadata.uid in before]
        assert [pod.metadata.labels[labels.GROUP] for pod in kept] == ["group-2"]
