"""The common parts of both kubelets: nodes, and the placement and binding of pods."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from datetime import datetime
from ipaddress import IPv4Address
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.kube.client import Client
from controller.kube.errors import AlreadyExists
from controller.kube.objects import PersistentVolumeClaim
from controller.kube.resources import CLAIMS
from devcluster.nodes.components import (
    ComponentContext,
    Enqueue,
    LoopComponent,
    record_event,
    write_status,
)
from devcluster.nodes.objects import NODES, ScheduledNode
from devcluster.nodes.pods import (
    PODS,
    ConditionUpdate,
    KubeletPod,
    PodConditionType,
    with_conditions,
)
from devcluster.nodes.scheduler import LOST, Scheduler, Unschedulable

_FIRST_POD = int(IPv4Address("10.244.0.1"))
_POD_ADDRESSES = 4 * 65536 - 2  # 10.244.0.1 to 10.247.255.254
_FIRST_NODE = int(IPv4Address("172.18.0.2"))


def node_address(number: int) -> str:
    """Return the address of the node with that number, from 0."""
    return str(IPv4Address(_FIRST_NODE + number))


class PodAddresses:
    """Assigns each pod a unique address."""

    def __init__(self, size: int = _POD_ADDRESSES) -> None:
        self._size = size
        self._by_uid: dict[str, str] = {}
        self._taken: set[str] = set()
        self._next = 0

    def hold(self, uid: str, address: str) -> None:
        """Record that the pod has this address."""
        self.release(uid)
        self._by_uid[uid] = address
        self._taken.add(address)

    def of(self, uid: str) -> str:
        """Return the pod's address, the same at every call until it is released.

        Raises:
            RuntimeError: all addresses are taken.
        """
        address = self._by_uid.get(uid)
        if address is None:
            address = self._free()
            self.hold(uid, address)
        return address

    def release(self, uid: str) -> None:
        """Release the address of a pod that is gone."""
        address = self._by_uid.pop(uid, None)
        if address is not None:
            self._taken.discard(address)

    def _free(self) -> str:
        for _ in range(self._size):
            address = str(IPv4Address(_FIRST_POD + self._next))
            self._next = (self._next + 1) % self._size
            if address not in self._taken:
                return address
        raise RuntimeError("no pod address is free")


UNSCHEDULABLE = "Unschedulable"
GATED = "SchedulingGated"
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


async def bind(client: Client, pod: KubeletPod, node: str) -> None:
    """Bind `pod` to a node.

    Raises:
        controller.kube.errors.KubeError: it could not be bound.
    """
    meta = pod.metadata
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "target": {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": node},
    }
    path = PODS.path(meta.namespace, meta.name, "binding")
    await client.request_json("POST", path, body=binding)


async def report_unscheduled(
    client: Client, pod: KubeletPod, now: datetime, *, reason: str, message: str
) -> None:
    """Report on `pod` why it is not scheduled, unless that was already reported.

    Raises:
        controller.kube.errors.KubeError: the status could not be written.
    """
    present = pod.status.condition(PodConditionType.SCHEDULED)
    if present and (present.status, present.reason, present.message) == ("False", reason, message):
        return
    verdict = ConditionUpdate(
        PodConditionType.SCHEDULED, is_true=False, reason=reason, message=message
    )
    conditions = with_conditions(pod.status.conditions, (verdict,), rfc3339(now))
    meta = pod.metadata
    status = replace(pod.status, conditions=conditions)
    await write_status(client, PODS, meta, pod.status, status)
    if reason == UNSCHEDULABLE:
        await record_event(
            client,
            PODS,
            meta,
            reason="FailedScheduling",
            message=message,
            component="default-scheduler",
            now=now,
        )


class NodeInfo(Struct, frozen=True):
    """The status of a Node object that describes its container runtime.

    Attributes:
        name: scheme of `containerRuntimeVersion`.
        address: address of the node; empty for a simulated one.
        cpu: capacity, empty for that of the settings.
    """

    name: str = "sim"
    ready: str = "the simulation runs"
    os_image: str = "simulated"
    kernel: str = "simulated"
    address: str = ""
    cpu: str = ""
    memory: str = ""


def is_lost(node: ScheduledNode | None) -> bool:
    """Return whether `node` counts as out of reach."""
    return node is not None and (node.metadata.annotations or {}).get(LOST) == "true"


class Registration(LoopComponent[str]):
    """Maintains the Node objects of `settings.node_names`."""

    def __init__(self, context: ComponentContext, runtime: NodeInfo | None = None) -> None:
        self._runtime = runtime or NodeInfo()
        self._client = context.client
        self._settings = context.settings
        self._wall = context.wall
        self._numbers = {name: i for i, name in enumerate(context.settings.node_names)}
        self._shapes = {shape.name: shape for shape in context.settings.node_shapes}
        self._reported: dict[str, bool] = {}
        super().__init__("nodes", context)
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

    def number(self, name: str) -> int | None:
        """Return the index of the node `name` among ours, None for other nodes."""
        return self._numbers.get(name)

    def is_lost(self, name: str) -> bool:
        """Return whether the node `name` is out of reach."""
        return is_lost(self._nodes.get(name))

    def _ours(self, node: ScheduledNode) -> tuple[str, ...]:
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
                    **self._shapes[name].labels,
                },
            },
            "spec": {"taints": [dict(taint) for taint in self._shapes[name].taints]},
            "status": self._status(name, lost=False),
        }
        with suppress(AlreadyExists):
            await self._client.create(NODES, "", body)

    def _status(self, name: str, *, lost: bool) -> dict[str, Any]:
        shape, runtime = self._shapes[name], self._runtime
        capacity = {
            "cpu": runtime.cpu or shape.cpu,
            "memory": runtime.memory or shape.memory,
            "pods": str(self._settings.max_pods),
            **shape.resources,
        }
        now = rfc3339(self._wall())
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


class Kubelet(LoopComponent[str]):
    """Registers nodes, places pods, and reconciles them; their keys are `namespace/name`."""

    def __init__(
        self, context: ComponentContext, info: NodeInfo | None = None, *, overcommits: bool = False
    ) -> None:
        super().__init__("kubelet", context)
        self.nodes = Registration(context, info)
        self._context = context
        schedules = context.settings.scheduling
        self._scheduler = Scheduler(context, overcommits=overcommits) if schedules else None
        if schedules:
            claimed: Enqueue[PersistentVolumeClaim, str] = Enqueue(
                lambda _key: self.may_fit_now(), lambda claim: (claim.metadata.key,)
            )
            context.caches.informer(CLAIMS).add_handler(claimed, name="kubelet")

    async def start(self) -> None:
        """Register the nodes.

        Raises:
            controller.kube.errors.KubeError: a Node object could not be created.
        """
        await self.nodes.start()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._start_tasks(group)

    def serves(self, node: str) -> bool:
        """Return whether the pods of that node run here: of our own, or of all if we schedule."""
        return self._scheduler is not None or node in self._context.settings.node_names

    async def place(self, pod: KubeletPod) -> None:
        """Bind the pod to a node, or report why that is not possible.

        What frees room enqueues it again: `may_fit_now`.

        Raises:
            controller.kube.errors.KubeError: a request failed.
        """
        client = self._context.client
        if self._scheduler is None:
            ours = self._context.settings.node_names
            names = [each for each in ours if not self.nodes.is_lost(each)]
            if names:
                number = zlib.crc32(pod.metadata.uid.encode()) % len(names)
                await bind(client, pod, names[number])
            return
        choice = self._scheduler.choose(pod)
        if isinstance(choice, Unschedulable):
            now, message = self._context.wall(), choice.message
            await report_unscheduled(client, pod, now, reason=UNSCHEDULABLE, message=message)
        else:
            await bind(client, pod, choice)

    def may_fit_now(self) -> None:
        """Enqueue the pods that wait for a node: something may have changed for them."""
        if self._scheduler is not None:
            for pod in self._context.caches.informer(PODS).lister.list():
                if not pod.spec.node_name:
                    self._loop.add(pod.metadata.key)

    def _start_tasks(self, group: asyncio.TaskGroup) -> None:
        group.create_task(self.nodes.run())
        group.create_task(self._loop.run())
