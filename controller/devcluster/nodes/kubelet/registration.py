"""Node objects: registration, readiness, and simulated loss.

A node is lost while its object has the annotation `sim.manta.dev/lost: "true"`, so that this
survives a restart and works with kubectl too.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes.components.control import Enqueue
from controller.devcluster.nodes.components.timestamps import timestamp
from controller.devcluster.nodes.kubelet.addresses import node_address
from controller.devcluster.nodes.settings import ANNOTATION_PREFIX
from controller.kube.errors import AlreadyExists
from controller.kube.resources import NODES

if TYPE_CHECKING:
    from controller.devcluster.nodes.components.component_context import ComponentContext
    from controller.kube.objects import Node

LOST = ANNOTATION_PREFIX + "lost"


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """The status of a Node object that describes its container runtime.

    Attributes:
        name: scheme of `containerRuntimeVersion`.
        ready: a sentence about why the node is Ready.
        os_image: name of the operating system.
        kernel: version of the kernel.
        address: address of the node; empty for a simulated one.
        cpu: capacity, empty for that of the settings.
        memory: the same for memory.
    """

    name: str = "sim"
    ready: str = "the simulation runs"
    os_image: str = "simulated"
    kernel: str = "simulated"
    address: str = ""
    cpu: str = ""
    memory: str = ""


def is_lost(node: Node | None) -> bool:
    """Return whether `node` counts as out of reach."""
    return node is not None and (node.metadata.annotations or {}).get(LOST) == "true"


class Registration:
    """Maintains the Node objects of `settings.node_names`."""

    def __init__(self, context: ComponentContext, runtime: NodeInfo | None = None) -> None:
        self._runtime = runtime or NodeInfo()
        self._client = context.client
        self._settings = context.settings
        self._wall = context.wall
        self._numbers = {name: i for i, name in enumerate(context.settings.node_names)}
        self._reported: dict[str, bool] = {}
        self._loop = context.control_loop("nodes", self._sync)
        informer = context.caches.informer(NODES)
        self._nodes = informer.lister
        informer.add_handler(Enqueue(self._loop.add, self._ours), name="nodes")

    async def start(self) -> None:
        """Create the Node objects that do not exist.

        Raises:
            controller.kube.errors.KubeError: one could not be created.
        """
        for name in self._numbers:
            await self._create(name)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._loop.run()

    def number(self, name: str) -> int | None:
        """Return the index of the node `name` among ours, None for other nodes."""
        return self._numbers.get(name)

    def is_lost(self, name: str) -> bool:
        """Return whether the node `name` is out of reach."""
        return is_lost(self._nodes.get(name))

    def _ours(self, node: Node) -> tuple[str, ...]:
        name = node.metadata.name
        return (name,) if name in self._numbers else ()

    async def _sync(self, name: str) -> float | None:
        node = self._nodes.get(name)
        if node is None:
            self._reported.pop(name, None)
            await self._create(name)
            return None
        lost = is_lost(node)
        heartbeat = self._settings.heartbeat
        if self._reported.get(name) != lost or (heartbeat and not lost):
            await self._client.merge_patch(
                NODES, "", name, {"status": self._status(name, lost=lost)}, subresource="status"
            )
            self._reported[name] = lost
        return heartbeat if heartbeat and not lost else None

    async def _create(self, name: str) -> None:
        body = {
            "apiVersion": NODES.api_version,
            "kind": NODES.kind,
            "metadata": {
                "name": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                },
            },
            "status": self._status(name, lost=False),
        }
        with suppress(AlreadyExists):
            await self._client.create(NODES, "", body)

    def _status(self, name: str, *, lost: bool) -> dict[str, Any]:
        settings, runtime = self._settings, self._runtime
        capacity = {
            "cpu": runtime.cpu or settings.cpu,
            "memory": runtime.memory or settings.memory,
            "pods": str(settings.max_pods),
        }
        if settings.gpus:
            capacity["nvidia.com/gpu"] = str(settings.gpus)
        now = timestamp(self._wall())
        address = runtime.address or node_address(self._numbers[name])
        ready = {
            "type": "Ready",
            "status": "Unknown" if lost else "True",
            "reason": "NodeStatusUnknown" if lost else "KubeletReady",
            "message": "Kubelet stopped posting node status." if lost else runtime.ready,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        return {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [ready],
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": "v0.0.0-manta",
                "kubeProxyVersion": "v0.0.0-manta",
                "containerRuntimeVersion": f"{runtime.name}://1",
                "osImage": runtime.os_image,
                "kernelVersion": runtime.kernel,
                "machineID": name,
                "systemUUID": name,
                "bootID": name,
            },
        }
