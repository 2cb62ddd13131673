"""Runs one pod from its start on this node to its removal from the API server.

`_run_to_completion` is the undisturbed life of the pod: sandbox, volumes, init containers,
containers. Deletion, a deadline or the end of the kubelet interrupt it; then containers are stopped
in order.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

import structlog
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.kube.objects import ObjectMeta
from devcluster.nodes import containers
from devcluster.nodes.pods import (
    ConditionUpdate,
    KubeletPod,
    PodIP,
    ReportedContainerStatus,
    ReportedPodStatus,
    with_conditions,
)
from devcluster.processes.container import ContainerRuns
from devcluster.processes.container_process import ContainerProcess, GracePeriod
from devcluster.processes.environment import DownwardValues, with_service_account
from devcluster.processes.pod_managers import (
    ContainerContext,
    PodRuntime,
    StatusManager,
    machine_memory,
    mount_volumes,
    read_pod,
    remove_pod,
)
from devcluster.processes.pod_sandbox import PodSandbox
from devcluster.processes.specification import SpecifiedPod
from devcluster.processes.volumes import Volumes

READY_TO_START = "PodReadyToStartContainers"
_SANDBOX_RETRY = 5.0  # seconds after a sandbox could not be made
_LATE = "Pod was active on the node longer than the specified deadline"

_log = structlog.get_logger(__name__)


class PodWorker:
    """The worker of one pod."""

    def __init__(self, runtime: PodRuntime, pod: KubeletPod) -> None:
        self.uid = pod.metadata.uid
        self._runtime = runtime
        self._meta: ObjectMeta = pod.metadata
        self._pod: SpecifiedPod | None = None
        self._reports = StatusManager(runtime.client, pod, self._status)
        self._sandbox: PodSandbox | None = None
        self._volumes: Volumes | None = None
        self._init: list[ContainerRuns] = []
        self._main: list[ContainerRuns] = []
        self._expected: tuple[ReportedContainerStatus, ...] = ()
        self._start_time = ""
        self._is_over = False
        self._reason = self._message = ""
        self._grace: GracePeriod | None = None
        self._ends = asyncio.Event()
        self._leaves = asyncio.Event()
        self._vanished = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []

    # Called by the kubelet.

    def running(self, container: str) -> ContainerProcess | None:
        """Return the process of a container; None while it does not run."""
        found = (runs for runs in (*self._main, *self._init) if runs.container.name == container)
        return next((runs.running for runs in found), None)

    def seen(self, pod: KubeletPod) -> None:
        """Update the pod from the cache."""
        self._reports.seen(pod)
        self._meta = pod.metadata
        if pod.metadata.terminating:
            seconds = pod.metadata.deletion_grace_period_seconds
            self._finish_within(30.0 if seconds is None else float(seconds))
            self._leaves.set()

    def vanished(self) -> None:
        """Handle the removal of the pod from the API server."""
        self._reports.gone()
        self._vanished.set()
        self._leaves.set()
        self._finish_within(0.0)

    def _finish_within(self, seconds: float) -> None:
        if self._grace is None:
            self._grace = GracePeriod(seconds)
        else:
            self._grace.shorten(seconds)
        self._ends.set()

    # Start and run.

    async def run(self) -> None:
        """Run the pod until it is removed. When cancelled, its processes are killed at once."""
        reporting = asyncio.create_task(self._reports.run())
        reporting.add_done_callback(self._failed)
        try:
            await self._until_end(self._run_to_completion())
            await self._stop()
            self._is_over = True
            self._changed()
            await self._close()
            self._changed()
            await self._reports.settle()
            await self._leaves.wait()
            await remove_pod(self._runtime.client, self._meta, self._vanished)
            await self._vanished.wait()
        finally:
            reporting.cancel()
            await self._kill()
            self._runtime.outputs.forget(self.uid)

    async def _until_end(self, life: Coroutine[Any, Any, None]) -> None:
        """Run the pod until it completes or must stop."""
        living = asyncio.create_task(life)
        ends = asyncio.create_task(self._ends.wait())
        try:
            await asyncio.wait({living, ends}, return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()
        finally:
            for task in (living, ends, *self._tasks):
                task.cancel()
            await asyncio.wait({living, ends, *self._tasks})

    async def _run_to_completion(self) -> None:
        pod = await read_pod(self._runtime.client, self._meta)
        if pod is None:
            return
        if self._runtime.access:
            pod = with_service_account(pod)
        self._pod = pod
        self._accept(pod)
        await self._prepare(pod)
        if await self._initialise(pod):
            await self._supervise(pod)

    async def _prepare(self, pod: SpecifiedPod) -> None:
        self._sandbox = await self._open(pod)
        downward = self._downward_values(self._sandbox)
        runtime, root = self._runtime, self._sandbox.root
        volumes = Volumes(pod, root, runtime.memory / self.uid, runtime.claims)
        self._volumes = volumes
        self._changed()
        await mount_volumes(runtime.sources, volumes, self._meta, downward, self._record_event)
        context = ContainerContext(runtime, pod, self._sandbox, downward, volumes, self._changed)
        by_name = {status.name: status for status in self._expected}
        self._init = [ContainerRuns(context, c, by_name[c.name]) for c in pod.spec.init_containers]
        self._main = [ContainerRuns(context, c, by_name[c.name]) for c in pod.spec.containers]

    async def _supervise(self, pod: SpecifiedPod) -> None:
        """Run the main containers until none is to be started again."""
        policy = pod.spec.restart_policy

        def restarts(code: int) -> bool:
            return policy == "Always" or (policy == "OnFailure" and code != 0)

        async with asyncio.TaskGroup() as group:
            for runs in self._main:
                group.create_task(runs.supervise(restarts))

    def _accept(self, pod: SpecifiedPod) -> None:
        self._start_time = rfc3339(self._runtime.wall())
        reason = containers.INITIALIZING if pod.spec.init_containers else containers.CREATING
        self._expected = tuple(
            containers.waiting(container, reason) for container in pod.spec.all_containers
        )
        if pod.spec.active_deadline_seconds is not None:
            self._spawn(self._expire(pod.spec.active_deadline_seconds))
        self._changed()

    async def _expire(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        assert self._pod is not None
        self._reason, self._message = "DeadlineExceeded", _LATE
        self._record_event("Normal", "DeadlineExceeded", _LATE)
        self._finish_within(self._pod.spec.termination_grace_period_seconds)

    async def _open(self, pod: SpecifiedPod) -> PodSandbox:
        while True:
            try:
                return await self._runtime.isolation.open_pod(
                    self.uid,
                    namespace=pod.metadata.namespace,
                    name=pod.metadata.name,
                    hostname=pod.spec.hostname or pod.metadata.name,
                    host_network=pod.spec.host_network,
                )
            except OSError as error:
                text = f"Failed to create pod sandbox: {error}"
                self._record_event("Warning", "FailedCreatePodSandBox", text)
                await asyncio.sleep(_SANDBOX_RETRY)

    async def _initialise(self, pod: SpecifiedPod) -> bool:
        """Run the init containers in order; return whether all have succeeded."""
        may_retry = pod.spec.restart_policy != "Never"
        for runs in self._init:
            if runs.container.is_sidecar:
                self._spawn(runs.supervise(lambda _: True))
                await runs.has_started.wait()
                continue
            code = await runs.supervise(lambda code: code != 0 and may_retry)
            if code != 0:
                return False
            runs.status = replace(runs.status, ready=True)
            self._changed()
        return True

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._failed)
        self._tasks.append(task)

    def _failed(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()):
            _log.error("part of a pod given up", pod=self._meta.key, exc_info=error)

    # Stop.

    async def _stop(self) -> None:
        """Stop the containers, then the sidecars in reverse order."""
        if self._pod is None:
            return
        if self._grace is None:
            self._grace = GracePeriod(self._pod.spec.termination_grace_period_seconds)
        grace = self._grace
        await asyncio.gather(*(runs.stop(grace) for runs in self._main))
        for runs in reversed(self._init):
            await runs.stop(grace)

    async def _kill(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(
            *(runs.stop(GracePeriod(0.0)) for runs in (*self._main, *self._init)),
            return_exceptions=True,
        )
        await self._close()

    async def _close(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await self._runtime.isolation.close_pod(sandbox)
        if self._volumes is not None:
            self._volumes.remove()

    # Status.

    def _changed(self) -> None:
        self._reports.changed()

    def _status(self, present: ReportedPodStatus) -> ReportedPodStatus:
        if self._pod is None:
            return present
        here = {runs.container.name: runs.status for runs in (*self._init, *self._main)}
        statuses = tuple(here.get(status.name, status) for status in self._expected)
        count = len(self._pod.spec.init_containers)
        host_ip, now = self._runtime.isolation.host_ip, rfc3339(self._runtime.wall())
        can_start = ConditionUpdate(READY_TO_START, is_true=self._sandbox is not None)
        status = replace(
            containers.addressed(present, self._sandbox.ip if self._sandbox else present.pod_ip),
            reason=self._reason if self._is_over else "",
            message=self._message if self._is_over else "",
            start_time=self._start_time,
            host_ip=host_ip,
            host_ips=(PodIP(ip=host_ip),),
            conditions=with_conditions(present.conditions, [can_start], now),
            init_container_statuses=statuses[:count],
            container_statuses=statuses[count:],
        )
        return containers.composed(
            self._pod, status, now, is_over=self._is_over, reason=self._reason
        )

    def _downward_values(self, sandbox: PodSandbox) -> DownwardValues:
        return DownwardValues(
            pod_ip=sandbox.ip,
            host_ip=self._runtime.isolation.host_ip,
            cpus=os.cpu_count() or 1,
            memory=machine_memory(),
        )

    def _record_event(self, kind: str, reason: str, message: str) -> None:
        self._runtime.events.record(self._meta, kind, reason, message)
