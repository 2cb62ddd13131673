"""`manta demo --kind drain`: nodes are drained one after the other while a job runs.

Pods are processes of this machine, with real Ray, on nodes that exist in the API server. Each node
is cordoned, its workers are evicted, and it comes back when the cluster is whole elsewhere; a
budget keeps the head while the job runs. The exit status is 0 only if the job's sums are right, no
task ran on a worker after its grace period, and nothing was left behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from controller.command.development.demos.cluster import NAMESPACE
from controller.command.development.demos.real_ray import demo_with_real_ray
from controller.command.development.demos.rolling import RollingDemoSummary, RollingPlay, play
from controller.command.development.demos.rolling_work import read_manifest
from controller.devcluster.nodes import NodeSettings
from controller.kube.errors import NotFound
from controller.kube.resources import NODES, PODS

if TYPE_CHECKING:
    from pathlib import Path

    from controller.command.development.demos.real_ray import MachineOptions
    from controller.kube.objects import Pod

_NODES: Final = NodeSettings(nodes=3, scheduling=True)


async def drain_demo(manifest: Path, machine: MachineOptions) -> int:
    """Run the demo and print its summary; returns the exit status.

    Args:
        manifest: as for the demo of rolling updates.
        machine: the options of this machine.

    Raises:
        ConfigurationError: the manifest cannot be played with, or Ray cannot be installed.
    """
    documents, summary = read_manifest(manifest), RollingDemoSummary()
    grace = {"terminationGracePeriodSeconds": documents.options.drain_timeout_seconds}
    documents.cluster["spec"] |= {"gracefulTerminationOptions": grace, "disruptionBudgets": {}}
    return await demo_with_real_ray(partial(play, documents, summary, DrainPlay), summary, machine)


@dataclass(slots=True)
class DrainPlay(RollingPlay):
    """The steps of the demo."""

    nodes: ClassVar[NodeSettings] = _NODES

    async def work(self) -> None:
        """Drain the nodes on which workers run."""
        names = {pod.spec.node_name for pod in self._workers()}
        for name in sorted(names):
            async with self.step(f"node {name} drained -> whole"):
                await self._drain(name)
                await self.view.until(lambda _, name=name: self._is_whole_without(name))
                await self._cordon(name, on=False)

    async def _drain(self, node: str) -> None:
        """Do what `kubectl drain` does to the workers of a node."""
        await self._cordon(node, on=True)
        for pod in self._workers():
            if pod.spec.node_name == node:
                self.screen.change(f"evicted: {pod.metadata.name}")
                self.view.draining[pod.metadata.key] = datetime.now(UTC)
                await self._evict(pod)

    async def _evict(self, pod: Pod) -> None:
        meta = pod.metadata
        body: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
        }
        try:
            path = PODS.path(NAMESPACE, meta.name, "eviction")
            await self.user.request_json("POST", path, body=body)
        except NotFound:
            return

    async def _cordon(self, node: str, *, on: bool) -> None:
        await self.user.merge_patch(NODES, "", node, {"spec": {"unschedulable": on or None}})

    def _workers(self) -> list[Pod]:
        return [pod for group in self.manifest.sizes for pod in self.view.takes_work(group)]

    def _is_whole_without(self, node: str) -> bool:
        """Return whether all workers are ready elsewhere, and none of the node is left."""
        left = [pod for pod in self.view.pods.values() if pod.spec.node_name == node]
        workers = [pod for pod in left if not pod.metadata.name.startswith(self._head_prefix)]
        return not workers and self.is_complete("v1")

    @property
    def _head_prefix(self) -> str:
        return f"{self.manifest.name}-head-"
