"""A real scheduler and real node controllers: pods that find no place, lose it, or must leave."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller.kube.resources import NODES, PODS
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import REAL_KUBECONFIG, World, role
from tests.integration.machines import Machines, cluster, opened_machines
from tests.lab.programs import kubectl
from tests.lab.session import needs

pytestmark = [
    pytest.mark.real_only,
    pytest.mark.vital,
    pytest.mark.timeout(180),
    needs("kube-scheduler"),
]

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
DEDICATED = {"key": "dedicated", "value": "others", "effect": "NoSchedule"}
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
async def machines() -> AsyncIterator[Machines]:
    async with opened_machines() as opened:
        yield opened


async def create(world: World, body: dict[str, Any]) -> None:
    await world.user.create(RAYCLUSTERS, world.namespace, body)


async def becomes_ready(world: World) -> None:
    await world.becomes(world.condition, lambda found: found["status"] == "True", pause=0.2)


def workers_on(machines: Machines, *names: str) -> list[int]:
    """How many workers run on each of these nodes."""
    bound = (machines.pods_on(name) for name in names)
    return [sum(role(pod) == "worker" for pod in pods) for pods in bound]


async def test_a_worker_without_a_place_is_named_in_the_schedulers_words_and_placed_later(
    machines: Machines,
):
    world = machines.world
    await machines.add("a", cpu="2500m")
    world.start_operator()
    await create(world, cluster(replicas=2))
    message = await world.says("Unschedulable", "Insufficient cpu")
    assert "0/1 nodes are available" in message
    await world.settle(5)
    assert len(world.journal.created) == 3

    await machines.add("b", cpu="1")
    await becomes_ready(world)
    assert workers_on(machines, "a", "b") == [1, 1]
    assert len(world.journal.created) == 3


async def test_a_head_without_a_place_is_named_and_its_workers_wait(machines: Machines):
    world = machines.world
    await machines.add("a", cpu="500m")
    world.start_operator()
    await create(world, cluster(replicas=2))
    assert "pod example-head" in await world.says("Unschedulable", "Insufficient cpu")
    await machines.add("b")
    await becomes_ready(world)
    assert len(world.journal.created) == 3


async def test_pods_that_tolerate_no_taint_wait_until_it_is_taken_away(machines: Machines):
    world = machines.world
    await machines.add("a", taints=(DEDICATED,))
    world.start_operator()
    await create(world, cluster(replicas=1))
    await world.says("Unschedulable", "untolerated taint")
    await world.user.merge_patch(NODES, "", machines.node("a"), {"spec": {"taints": None}})
    await becomes_ready(world)
    assert len(world.journal.created) == 2


async def test_a_taint_that_evicts_costs_its_pods_once_and_others_take_their_place(
    machines: Machines,
):
    world = machines.world
    await machines.add("a", cpu="2")
    world.start_operator()
    await create(world, cluster(replicas=1))
    await becomes_ready(world)
    await machines.add("b")
    taint = {"spec": {"taints": [DEDICATED | {"effect": "NoExecute"}]}}
    await world.user.merge_patch(NODES, "", machines.node("a"), taint)
    await world.eventually(lambda: len(machines.pods_on("b")) == 2, seconds=60)
    await becomes_ready(world)
    assert len(world.journal.created) == 4
    assert world.journal.most_live_heads == 1


async def test_workers_spread_over_zones_and_a_zone_that_is_full_is_named(machines: Machines):
    world = machines.world
    for zone in ("x", "y"):
        await machines.add(zone, cpu="5", labels={ZONE: zone})
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"ray.io/group": "workers"}},
    }
    world.start_operator()
    await create(world, cluster(replicas=4, topologySpreadConstraints=[spread]))
    await becomes_ready(world)
    assert workers_on(machines, "x", "y") == [2, 2]

    cordoned = {"spec": {"unschedulable": True}}
    await world.user.merge_patch(NODES, "", machines.node("x"), cordoned)
    await world.scale(6)
    await world.says("Unschedulable", "topology spread constraints")
    await world.user.merge_patch(NODES, "", machines.node("x"), {"spec": {"unschedulable": None}})
    await becomes_ready(world)
    assert workers_on(machines, "x", "y") == [3, 3]
    assert len(world.journal.created) == 7


async def test_workers_that_a_pod_of_higher_priority_displaces_wait_and_come_back(
    machines: Machines,
):
    world = machines.world
    await machines.add("a", cpu="3")
    world.start_operator()
    await create(world, cluster(replicas=2))
    await becomes_ready(world)
    urgent = {"metadata": {"name": f"urgent-{world.namespace}"}, "value": 1000}
    await world.user.request_json("POST", PRIORITY_CLASSES, body=urgent)
    requests = {"resources": {"requests": {"cpu": "2"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "urgent"},
        "spec": {
            "priorityClassName": urgent["metadata"]["name"],
            "containers": [{"name": "main", "image": "busybox:1", **requests}],
        },
    }
    try:
        await world.user.create(PODS, world.namespace, pod)
        await world.eventually(lambda: urgent_runs(world), seconds=60)
        await world.says("Unschedulable", "Insufficient cpu")
        await world.settle(10)  # in which nothing is created again and again
        ours = [pod for pod in world.journal.created.values() if role(pod)]
        lost = len(ours) - len([pod for pod in world.journal.present.values() if role(pod)])
        assert Counter(map(role, ours))["worker"] <= 2 + lost
        assert lost == 2 or world.journal.most_live_heads == 1
    finally:
        await world.user.delete(PODS, world.namespace, "urgent")
        await world.user.request_json("DELETE", f"{PRIORITY_CLASSES}/{urgent['metadata']['name']}")
    await becomes_ready(world)
    assert len(world.journal.workers()) == 2


def urgent_runs(world: World) -> bool:
    pods = world.journal.present.values()
    return any(pod.metadata.name == "urgent" and pod.status.phase == "Running" for pod in pods)


async def drain(machines: Machines, name: str) -> None:
    program = kubectl()
    assert program is not None
    process = await asyncio.create_subprocess_exec(
        *(program, f"--kubeconfig={REAL_KUBECONFIG}", "drain", machines.node(name)),
        *("--delete-emptydir-data", "--ignore-daemonsets", "--timeout=120s"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


async def test_a_drained_node_is_left_one_worker_at_a_time_as_the_budget_says(machines: Machines):
    world = machines.world
    await machines.add("a", cpu="3")
    world.start_operator()
    await create(world, cluster(replicas=2))
    await becomes_ready(world)
    await machines.add("b")
    budget = {
        "metadata": {"name": "workers"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"ray.io/group": "workers"}}},
    }
    path = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets"
    await world.user.request_json("POST", path, body=budget)
    fewest = 2
    drained = asyncio.create_task(drain(machines, "a"))
    while not drained.done():
        fewest = min(fewest, len(world.journal.ready_workers()))
        await asyncio.sleep(0.02)
    await drained
    await world.eventually(lambda: len(machines.pods_on("b")) == 3)
    await becomes_ready(world)
    assert fewest == 1
    assert len(world.journal.created) == 6
    assert world.journal.most_live_heads == 1


async def test_workers_of_a_node_that_dies_are_named_and_replaced_once_the_node_is_gone(
    machines: Machines,
):
    world = machines.world
    await machines.add("a", cpu="1")
    world.start_operator()
    await create(world, cluster(replicas=2))
    await world.eventually(lambda: len(machines.pods_on("a")) == 1)
    await machines.add("b", cpu="2")
    await becomes_ready(world)
    assert workers_on(machines, "b") == [2]

    await machines.kill("b")
    await world.says("NodeLost", machines.node("b"))
    await machines.add("c", cpu="2")
    message = await world.says("NodeLost", "was deleted and cannot terminate")
    assert "delete its Node object" in message
    assert "(and 1 more of node" in message
    await world.settle(5)
    assert len(world.journal.created) == 3, "the lost ones may still run"
    await machines.remove("b")
    await world.eventually(lambda: workers_on(machines, "c") == [2], seconds=120)
    await becomes_ready(world)
    assert Counter(map(role, world.journal.created.values())) == {"head": 1, "worker": 4}


async def test_a_head_whose_node_dies_is_named_and_replaced_once_the_node_is_gone(
    machines: Machines,
):
    world = machines.world
    await machines.add("a", cpu="1")
    world.start_operator()
    await create(world, cluster(replicas=1))
    await world.eventually(lambda: len(machines.pods_on("a")) == 1)
    await machines.add("b", cpu="2")
    await becomes_ready(world)

    await machines.kill("a")
    message = await world.says("NodeLost", "was deleted and cannot terminate")
    assert "delete its Node object" in message
    assert heads(world) == 1, "the lost one may still run"
    await machines.remove("a")
    await world.eventually(lambda: heads(world) == 2, seconds=120)
    await becomes_ready(world)
    assert heads(world) == 2
    assert world.journal.most_live_heads == 1


def heads(world: World) -> int:
    return sum(role(pod) == "head" for pod in world.journal.created.values())
