"""The process kubelet: pods bound to its node run as processes of this machine."""

from __future__ import annotations

import asyncio
import os
import platform
from pathlib import Path

import structlog

from controller.kube.errors import Conflict, NotFound
from devcluster.nodes.components import Component, ComponentContext, Enqueue, own_key
from devcluster.nodes.kubelet import (
    GATED,
    GATED_MESSAGE,
    Kubelet,
    NodeInfo,
    report_unscheduled,
)
from devcluster.nodes.objects import NODES, ScheduledNode
from devcluster.nodes.pods import PODS, KubeletPod
from devcluster.processes.container_process import ContainerProcess
from devcluster.processes.environment import ApiAccess, Images
from devcluster.processes.output import Outputs
from devcluster.processes.pod_managers import (
    PodEvents,
    PodRuntime,
    StartSlots,
    machine_memory,
)
from devcluster.processes.pod_sandbox import Isolation
from devcluster.processes.pod_worker import PodWorker
from devcluster.processes.volume_sources import Claims, Sources


class ComponentGroup:
    """Components that start in order and then run at the same time."""

    def __init__(self, *components: Component) -> None:
        self._components = components

    async def start(self) -> None:
        """Start them, one after the other."""
        for component in self._components:
            await component.start()

    async def run(self) -> None:
        """Run all until cancelled."""
        async with asyncio.TaskGroup() as group:
            for component in self._components:
                group.create_task(component.run())


_log = structlog.get_logger(__name__)


def node_info(isolation: Isolation) -> NodeInfo:
    """Return the Node information of this machine."""
    return NodeInfo(
        name="process",
        ready="pods are processes of this machine",
        os_image=platform.system(),
        kernel=platform.release(),
        address=isolation.host_ip,
        cpu=str(os.cpu_count() or 1),
        memory=str(machine_memory()),
    )


class ProcessKubelet(Kubelet):
    """Runs pods as processes.

    Limits and requests are visible to pods but not enforced: without its own cgroups
    this program cannot limit processors, and a limit of address space would break Ray,
    which reserves much more than it uses. Volume sizes, users and capabilities are ignored. A
    process that the machine kills for lack of memory is reported as OOMKilled.
    """

    def __init__(
        self,
        context: ComponentContext,
        *,
        isolation: Isolation,
        images: Images,
        outputs: Outputs,
        root: Path,
        memory: Path,
        access: ApiAccess | None = None,
    ) -> None:
        super().__init__(context, node_info(isolation), overcommits=True)
        self._context = context
        self._events = PodEvents(context)
        self._runtime = PodRuntime(
            client=context.client,
            isolation=isolation,
            images=images,
            outputs=outputs,
            sources=Sources(context, access.authority if access else b""),
            events=self._events,
            settings=context.settings,
            start_slots=StartSlots(context.settings.starts, context.settings.start_time),
            wall=context.wall,
            claims=root / "claims",
            memory=memory,
            access=access,
        )
        self._claims = Claims(context, self._runtime.claims)
        self._runs: dict[str, dict[str, PodWorker]] = {}
        self._group: asyncio.TaskGroup | None = None
        informer = context.caches.informer(PODS)
        informer.add_handler(Enqueue(self._loop.add, own_key), name="kubelet")
        self._pods = informer.lister
        nodes = context.caches.informer(NODES)
        nodes.add_handler(Enqueue(self._loop.add, self._unbound), name="kubelet")

    def running(self, pod: str, container: str) -> ContainerProcess | None:
        """Return the process of a container; None while it does not run."""
        found = (run.running(container) for run in self._runs.get(pod, {}).values())
        return next((one for one in found if one), None)

    def _start_tasks(self, group: asyncio.TaskGroup) -> None:
        """Start everything; when it is cancelled, every process of every pod is killed."""
        self._group = group
        group.create_task(self._events.run())
        group.create_task(self._claims.run())
        super()._start_tasks(group)

    async def _sync(self, key: str, /) -> float | None:
        pod = self._pods.get(key)
        for uid, run in self._runs.get(key, {}).items():
            if pod is None or pod.metadata.uid != uid:
                run.vanished()
        if pod is None or pod.is_finished:
            self.may_fit_now()
        if pod is None:
            return None
        if not pod.spec.node_name:
            await self._bind(pod)
        elif self.serves(pod.spec.node_name):
            self._follow(key, pod)
        return None

    async def _bind(self, pod: KubeletPod) -> None:
        try:
            if pod.spec.scheduling_gates:
                client, now = self._runtime.client, self._runtime.wall()
                await report_unscheduled(client, pod, now, reason=GATED, message=GATED_MESSAGE)
            elif not pod.metadata.terminating:
                await self.place(pod)
        except (NotFound, Conflict):
            pass  # the pod has changed or is deleted: its event enqueues the key again

    def _unbound(self, node: ScheduledNode) -> list[str]:
        """Return the keys of pods that may have waited for a change of this node."""
        del node
        return [pod.metadata.key for pod in self._pods.list() if not pod.spec.node_name]

    def _follow(self, key: str, pod: KubeletPod) -> None:
        runs = self._runs.setdefault(key, {})
        run = runs.get(pod.metadata.uid)
        if run is None and not pod.is_finished:
            run = runs[pod.metadata.uid] = PodWorker(self._runtime, pod)
            assert self._group is not None
            self._group.create_task(self._run(key, run))
        if run is not None:
            run.seen(pod)

    async def _run(self, key: str, run: PodWorker) -> None:
        try:
            await run.run()
        except Exception:  # noqa: BLE001  a pod that fails must not stop the others
            _log.exception("pod given up", pod=key)
        finally:
            self._runs[key].pop(run.uid)
            if not self._runs[key]:
                del self._runs[key]
