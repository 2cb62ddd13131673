"""With its state in Redis a cluster outlives its head: the workers stay, whatever becomes of it."""

from __future__ import annotations

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import PODS
from tests.integration.harness import World, is_ready, live, role
from tests.integration.test_deletion import ready_cluster

LONG = 400.0
"""Seconds in which a head that was lost again and again is replaced."""


def ready_head(world: World, *, but: frozenset[str] = frozenset()) -> Pod | None:
    """The ready head, unless it is one of these."""
    for pod in world.journal.present.values():
        if role(pod) == "head" and live(pod) and is_ready(pod) and pod.metadata.name not in but:
            return pod
    return None


async def end(world: World, head: Pod, how: str) -> None:
    """Have the head deleted, or end by itself in a certain way."""
    name = head.metadata.name
    if how == "deleted":
        await world.user.delete(PODS, world.namespace, name)
        return
    told = {"sim.manta.dev/outcome": how, "sim.manta.dev/fail-after": "0"}
    patch = {"metadata": {"annotations": told}}
    await world.user.merge_patch(PODS, world.namespace, name, patch)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_however_often_the_head_dies_no_worker_is_deleted(world: World):
    world.start_operator()
    await ready_cluster(world)
    names: set[str] = set()
    for turn in range(12 if world.server else 4):
        head = await world.eventually(lambda: ready_head(world, but=frozenset(names)), seconds=LONG)
        names.add(head.metadata.name)
        await end(world, head, "fail" if turn % 2 else "deleted")
    await world.eventually(lambda: ready_head(world, but=frozenset(names)), seconds=LONG)
    assert world.journal.workers_deleted() == 0
    assert world.journal.workers_created() == 2
    assert world.journal.most_live_heads == 1


@pytest.mark.parametrize("how", ["deleted", "fail"])
async def test_a_lost_head_is_replaced_under_a_new_name_while_the_workers_live_on(
    world: World, how: str
):
    world.start_operator()
    await ready_cluster(world)
    workers = {pod.metadata.uid for pod in world.journal.workers()}
    first = await world.eventually(lambda: ready_head(world))
    await end(world, first, how)
    name = frozenset({first.metadata.name})
    second = await world.eventually(lambda: ready_head(world, but=name))
    assert second.metadata.uid != first.metadata.uid
    assert {pod.metadata.uid for pod in world.journal.ready_workers()} == workers
    status = (await world.cluster()).status
    await world.eventually(lambda: names_head(world, second))
    assert status["state"] == "ready", "it is not taken back"


async def names_head(world: World, head: Pod) -> bool:
    return (await world.cluster()).status["head"].get("podName") == head.metadata.name
