"""Nodes with real capacities for a real scheduler, each with a kubelet of its own that can die."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from controller.kube.objects import Pod
from controller.kube.resources import NODES
from devcluster.nodes import NodeSettings, run_nodes
from devcluster.nodes.pods import KubeletPod
from devcluster.nodes.simulated_kubelet import SimulatedKubelet
from tests.integration.harness import REAL_KUBECONFIG, World, example_cluster, real_world
from tests.lab.control_plane import NODE_CONTROLLERS, plane_in

HEARTBEAT = 1.0
PATIENT = 2
"""Seconds for which pods of these tests stay on a node that is lost."""

LOST_AFTER = (
    "--node-monitor-period=1s",
    "--node-monitor-grace-period=6s",
    "--node-eviction-rate=10",
)
"""A node is lost after 6 seconds without a heartbeat, not after 50."""


class BoundPodsKubelet(SimulatedKubelet):
    """Runs what the scheduler has bound to its nodes, and binds nothing itself."""

    def _is_ours(self, pod: KubeletPod) -> bool:
        return bool(pod.spec.node_name) and super()._is_ours(pod)


class Machines:
    def __init__(self, world: World) -> None:
        self.world = world
        self._kubelets: dict[str, asyncio.Task[None]] = {}

    async def add(
        self,
        *names: str,
        cpu: str = "4",
        labels: Mapping[str, str] | None = None,
        taints: tuple[Mapping[str, str], ...] = (),
    ) -> None:
        """Add nodes of this capacity, and wait until pods may run there."""
        for name in names:
            started = asyncio.Event()
            self._kubelets[name] = asyncio.create_task(self._live(name, cpu, started))
            await started.wait()
            change = {"metadata": {"labels": {**(labels or {})}}}
            if taints:
                change["spec"] = {"taints": [dict(taint) for taint in taints]}
            await self.world.user.merge_patch(NODES, "", self.node(name), change)
        for name in names:
            await self.world.eventually(lambda name=name: self._is_open(name), seconds=30)

    def node(self, name: str) -> str:
        return f"{self.world.namespace}-{name}-0"

    async def kill(self, name: str) -> None:
        """Let the kubelet of a node die without a word."""
        task = self._kubelets.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def remove(self, name: str) -> None:
        """Delete the Node object, as a cloud does when the machine is gone."""
        await self.world.user.delete(NODES, "", self.node(name))

    def pods_on(self, name: str) -> list[Pod]:
        pods = self.world.journal.present.values()
        return [pod for pod in pods if pod.spec.node_name == self.node(name)]

    async def aclose(self) -> None:
        for name in list(self._kubelets):
            await self.kill(name)

    async def _live(self, name: str, cpu: str, started: asyncio.Event) -> None:
        settings = NodeSettings(
            node_name=f"{self.world.namespace}-{name}",
            cpu=cpu,
            memory="64Gi",
            max_pods=110,
            heartbeat=HEARTBEAT,
            start_delay=0.2,
            ready_delay=0.2,
        )
        async with run_nodes(
            self.world.client("kubelet"),
            clock=self.world.loop,
            wall=self.world.wall,
            rng=random.Random(1),
            settings=settings,
            components={"kubelet"},
            kubelet=BoundPodsKubelet,
        ):
            started.set()
            await asyncio.get_running_loop().create_future()

    async def _is_open(self, name: str) -> bool:
        """Whether the node controller has taken away the taint of a new node."""
        node = await self.world.user.get_raw(NODES, "", self.node(name))
        taints = node["spec"].get("taints", [])
        return not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)


@contextmanager
def scheduling() -> Iterator[None]:
    """Run a scheduler and the controllers of nodes beside this process's control plane."""
    plane = plane_in(Path(REAL_KUBECONFIG).parent)
    with ExitStack() as stack:
        stack.enter_context(
            plane.controller_manager(*NODE_CONTROLLERS, label="node-controllers", flags=LOST_AFTER)
        )
        stack.enter_context(plane.scheduler())
        yield


@asynccontextmanager
async def opened_machines() -> AsyncIterator[Machines]:
    """A world whose pods a real scheduler places; nodes are yet to be added."""
    async with real_world(REAL_KUBECONFIG, components=frozenset()) as world:
        await world.user.request_json("DELETE", NODES.path("", ""))  # those of other tests
        machines = Machines(world)
        try:
            with scheduling():
                yield machines
        finally:
            await machines.aclose()
            for name in await _names(world):
                await world.user.delete(NODES, "", name)


async def _names(world: World) -> list[str]:
    return [node.metadata.name for node in (await world.user.list(NODES, "")).items]


def impatient(template: dict[str, Any]) -> None:
    """Let pods of this template leave a lost node at once, not after five minutes."""
    keys = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
    template["spec"]["tolerations"] = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENT}
        for key in keys
    ]


def cluster(*, replicas: int = 2, **pod_fields: Any) -> dict[str, Any]:
    """A RayCluster with pods of one CPU; `pod_fields` are added to those of the workers."""
    body = example_cluster(replicas=replicas)
    head = body["spec"]["headGroupSpec"]["template"]
    workers = body["spec"]["workerGroupSpecs"][0]["template"]
    impatient(head)
    impatient(workers)
    workers["spec"].update(pod_fields)
    return body
