"""The simulated kubelet against the embedded API server."""

from __future__ import annotations

import asyncio

from controller.kube.resources import NODES
from controller.testing.faults import LostResponse, Rule, watch_lag
from devcluster.nodes.pods import PODS
from tests.devcluster.nodes.conftest import World

STATUS_WRITES = frozenset({"patch"})


async def test_the_node_is_registered_with_its_capacity(world: World) -> None:
    async with world.nodes("kubelet", nodes=2, cpu="64"):
        await asyncio.sleep(1)
        node = await world.user.get_raw(NODES, "", "manta-node-1")
    assert node["status"]["capacity"]["cpu"] == "64"
    assert node["status"]["allocatable"]["cpu"] == "64"
    (ready,) = node["status"]["conditions"]
    assert (ready["type"], ready["status"]) == ("Ready", "True")


async def test_a_node_that_was_deleted_is_registered_again(world: World) -> None:
    async with world.nodes("kubelet"):
        await world.user.delete(NODES, "", "manta-node-0")
        await asyncio.sleep(1)
        assert not await world.is_gone(NODES, "manta-node-0")


async def test_a_change_of_a_node_that_concerns_nobody_is_not_answered(world: World) -> None:
    async with world.nodes("kubelet"):
        await asyncio.sleep(5)
        before = len(world.recorder.writes)
        await world.user.merge_patch(
            NODES, "", "manta-node-0", {"metadata": {"labels": {"a": "b"}}}
        )
        await asyncio.sleep(5)
        assert len(world.recorder.writes) == before


async def test_nothing_is_written_when_nothing_happens(world: World) -> None:
    async with world.nodes():
        await world.create_pod("a")
        await world.create_pod("b", annotations={"outcome": "hang-pending"})
        await world.create_pod("c", annotations={"outcome": "succeed"}, restartPolicy="Never")
        await asyncio.sleep(30)
        before = len(world.recorder.writes)
        await asyncio.sleep(3600)
        assert len(world.recorder.writes) == before


async def test_pods_are_spread_over_the_nodes_and_have_addresses_of_their_own(
    world: World,
) -> None:
    async with world.nodes("kubelet", nodes=3, start_delay=0.0, ready_delay=0.0):
        for number in range(60):
            await world.create_pod(f"p-{number}")
        await asyncio.sleep(5)
        pods = (await world.user.list(PODS, "default")).items
    assert len({pod.status.pod_ip for pod in pods}) == 60
    assert {pod.spec.node_name for pod in pods} == {"manta-node-0", "manta-node-1", "manta-node-2"}
    assert len({pod.status.host_ip for pod in pods}) == 3


async def test_a_restarted_kubelet_gives_no_address_twice(world: World) -> None:
    async with world.nodes("kubelet"):
        for name in ("a", "b", "c"):
            await world.create_pod(name)
        await world.eventually(lambda: world.is_ready("c"))
        await world.user.delete(PODS, "default", "a")
        await world.eventually(lambda: world.is_gone(PODS, "a"))
    async with world.nodes("kubelet"):
        await world.create_pod("d")
        await world.eventually(lambda: world.is_ready("d"))
    pods = (await world.user.list(PODS, "default")).items
    assert len({pod.status.pod_ip for pod in pods}) == 3


async def test_a_restarted_kubelet_goes_on_where_it_stopped(world: World) -> None:
    told = {"start-delay": "20", "ready-delay": "20"}
    async with world.nodes("kubelet"):
        await world.create_pod("a", annotations=told)
        await asyncio.sleep(15)
    await asyncio.sleep(10)
    async with world.nodes("kubelet"):
        await world.eventually(lambda: world.is_ready("a"))
    assert 45.0 <= world.now < 46.2  # started at 25, when the kubelet was back


async def test_a_pod_hangs_without_a_node_until_it_may_run(world: World) -> None:
    async with world.nodes("kubelet"):
        await world.create_pod("a", annotations={"outcome": "hang-pending"})
        await asyncio.sleep(5)
        condition = (await world.pod("a")).status.condition("PodScheduled")
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        assert condition.message is not None
        assert "Insufficient cpu" in condition.message
        patch = {"metadata": {"annotations": {"sim.manta.dev/outcome": None}}}
        await world.user.merge_patch(PODS, "default", "a", patch)
        await world.eventually(lambda: world.is_ready("a"))


async def test_a_gated_pod_is_bound_when_the_gate_goes(world: World) -> None:
    async with world.nodes("kubelet"):
        await world.create_pod("a", schedulingGates=[{"name": "example.com/quota"}])
        await asyncio.sleep(5)
        assert (await world.pod("a")).spec.node_name == ""
        await world.user.merge_patch(PODS, "default", "a", {"spec": {"schedulingGates": []}})
        await world.eventually(lambda: world.is_ready("a"))


async def test_a_deleted_pod_terminates_then_goes(world: World) -> None:
    async with world.nodes("kubelet", termination_delay=3.0):
        pod = await world.create_pod("a")
        await world.eventually(lambda: world.is_ready("a"))
        await asyncio.sleep(2.9 - world.now)  # late in a second, which timestamps do not show
        began = world.now
        await world.user.delete(PODS, "default", "a", uid=pod.metadata.uid)
        await asyncio.sleep(2.5)
        assert (await world.pod("a")).metadata.terminating
        await world.eventually(lambda: world.is_gone(PODS, "a"))
        assert world.now - began < 3.2
    deletions = [body for method, _, body in world.recorder.writes if method == "DELETE"]
    assert len(deletions) == 1
    assert deletions[0]["gracePeriodSeconds"] == 0
    assert deletions[0]["preconditions"] == {"uid": pod.metadata.uid}


async def test_a_finalizer_holds_a_pod_whose_containers_have_stopped(world: World) -> None:
    async with world.nodes("kubelet"):
        await world.create_pod("a", finalizers=["example.com/hold"])
        await world.eventually(lambda: world.is_ready("a"))
        await world.user.delete(PODS, "default", "a")
        await asyncio.sleep(30)
        assert (await world.pod("a")).status.phase == "Failed"
        await world.user.merge_patch(PODS, "default", "a", {"metadata": {"finalizers": None}})
        await asyncio.sleep(1)
        assert await world.is_gone(PODS, "a")


async def test_a_lost_node_freezes_its_pods_and_takes_no_new_ones(world: World) -> None:
    async with world.nodes("kubelet"):
        await world.create_pod("a")
        await world.eventually(lambda: world.is_ready("a"))
        await world.lose_node("manta-node-0")
        await world.create_pod("b")
        await asyncio.sleep(10)
        assert not await world.is_ready("a")
        assert (await world.pod("b")).spec.node_name == ""
        node = await world.user.get_raw(NODES, "", "manta-node-0")
        assert node["status"]["conditions"][0]["status"] == "Unknown"
        await world.restore_node("manta-node-0")
        await world.eventually(lambda: world.is_ready("a"))
        await world.eventually(lambda: world.is_ready("b"))
        node = await world.user.get_raw(NODES, "", "manta-node-0")
        assert node["status"]["conditions"][0]["status"] == "True"


async def test_pods_of_a_lost_node_are_evicted_and_hang(world: World) -> None:
    async with world.nodes("kubelet", eviction_delay=60.0):
        await world.create_pod("a")
        await world.eventually(lambda: world.is_ready("a"))
        await world.lose_node("manta-node-0")
        await asyncio.sleep(59)
        assert not (await world.pod("a")).metadata.terminating
        await asyncio.sleep(100)
        assert (await world.pod("a")).metadata.terminating


async def test_a_stale_kubelet_counts_restarts_once(world: World) -> None:
    """Each status is written for one version of the pod: the guard is its resourceVersion."""
    rules = (watch_lag("pods", 0.7), Rule(LostResponse(), "pods", STATUS_WRITES, skip=2, times=3))
    starts: set[tuple[int, str]] = set()

    async def look() -> None:
        for container in (await world.pod("a")).status.container_statuses:
            if container.state.running:
                starts.add((container.restart_count, container.state.running.started_at))

    async with world.nodes("kubelet", rules=rules):
        await world.create_pod("a", annotations={"outcome": "crash", "ready-delay": "9"})
        for number in range(50):
            await asyncio.sleep(0.9)
            label = {"metadata": {"labels": {"touched": str(number)}}}
            await world.user.merge_patch(PODS, "default", "a", label)
            await look()
    assert len(starts) == 4  # restarts at about 2, 13 and 34 s
