"""What a pod's worker needs: reads and removal of the pod, status writes, events, volumes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

from controller.kube.client import Client
from controller.kube.errors import Conflict, Invalid, KubeError, NotFound
from controller.kube.objects import ObjectMeta
from devcluster.nodes.components import (
    ComponentContext,
    NodeSettings,
    record_event,
    write_status,
)
from devcluster.nodes.pods import PODS, KubeletPod, ReportedPodStatus
from devcluster.processes.container_process import RECHECK_SECONDS, wait_at_most
from devcluster.processes.environment import (
    ApiAccess,
    DownwardValues,
    Images,
    InvalidConfiguration,
)
from devcluster.processes.output import Outputs
from devcluster.processes.pod_sandbox import Isolation, PodSandbox
from devcluster.processes.specification import (
    SPECIFIED_PODS,
    ContainerSpecification,
    SpecifiedPod,
)
from devcluster.processes.volume_sources import Sources
from devcluster.processes.volumes import Volumes
from informers import is_older

# Shared dependencies of all pods of a process kubelet, and of the containers of one pod.


class StartSlots:
    """Permits to start, each held until the container is ready, ends, or has had its time.

    Args:
        count: number of permits; 0 for one for each CPU.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self._free = asyncio.Semaphore(count or os.cpu_count() or 1)
        self._seconds = seconds

    async def take(self) -> StartSlot:
        """Wait for a permit, in the order of the calls."""
        await self._free.acquire()
        return StartSlot(self._free, self._seconds)


class StartSlot:
    """A permit that is held until it is released or its time is over."""

    def __init__(self, free: asyncio.Semaphore, seconds: float) -> None:
        self._free = free
        self._timer = asyncio.get_running_loop().call_later(seconds, self.release)
        self._is_held = True

    def release(self) -> None:
        """Let the next container start; may be called again."""
        if self._is_held:
            self._is_held = False
            self._timer.cancel()
            self._free.release()


class PodEvents:
    """Records events of pods, as `kubectl describe pod` shows them, one after the other."""

    def __init__(self, context: ComponentContext) -> None:
        self._client = context.client
        self._wall = context.wall
        self._unsent: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()

    def record(
        self, meta: ObjectMeta, kind: str, reason: str, message: str, *, container: str = ""
    ) -> None:
        """Record an event of a pod; see `record_event`."""
        self._unsent.put_nowait(
            partial(
                record_event,
                self._client,
                PODS,
                meta,
                kind=kind,
                reason=reason,
                message=message,
                component="kubelet",
                now=self._wall(),
                container=container,
            )
        )

    async def run(self) -> None:
        """Send events until cancelled."""
        while True:
            send = await self._unsent.get()
            await send()


class PodRuntime(Struct, frozen=True):
    """Dependencies that all pods share.

    Attributes:
        claims: folder of the directories of persistent volume claims, by uid.
        memory: folder of volumes of medium Memory, by pod.
        access: access of pods to the API server; None for no access.
    """

    client: Client
    isolation: Isolation
    images: Images
    outputs: Outputs
    sources: Sources
    events: PodEvents
    settings: NodeSettings
    start_slots: StartSlots
    wall: Callable[[], datetime]
    claims: Path
    memory: Path
    access: ApiAccess | None


class ContainerContext(Struct, frozen=True):
    """Dependencies that the containers of one pod share."""

    runtime: PodRuntime
    pod: SpecifiedPod
    sandbox: PodSandbox
    downward: DownwardValues
    volumes: Volumes
    changed: Callable[[], None]

    def record_event(
        self, kind: str, reason: str, message: str, container: ContainerSpecification
    ) -> None:
        """Record an event about one of the containers."""
        group = "initContainers" if container in self.pod.spec.init_containers else "containers"
        path = f"spec.{group}{{{container.name}}}"
        self.runtime.events.record(self.pod.metadata, kind, reason, message, container=path)


def machine_memory() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def oom_kills() -> int:
    """Return the number of processes killed on this machine for lack of memory; 0 if unknown."""
    try:
        with open("/proc/vmstat", encoding="ascii") as counters:  # noqa: PTH123  not a disk
            return next((int(line.split()[1]) for line in counters if "oom_kill " in line), 0)
    except OSError:
        return 0


API_RETRY: Final = 2.0
"""Seconds to wait after a failure of the API server."""

_log = structlog.get_logger(__name__)


async def read_pod(client: Client, meta: ObjectMeta) -> SpecifiedPod | None:
    """Return the whole pod; None if it was removed."""
    while True:
        try:
            pod = await client.get(SPECIFIED_PODS, meta.namespace, meta.name)
        except NotFound:
            return None
        except KubeError as error:
            _log.debug("pod not read", pod=meta.key, error=repr(error))
            await asyncio.sleep(API_RETRY)
        else:
            return pod if pod.metadata.uid == meta.uid else None


async def remove_pod(client: Client, meta: ObjectMeta, vanished: asyncio.Event) -> None:
    """Delete the pod, whose containers have stopped, unless it has `vanished`."""
    while not vanished.is_set():
        try:
            await client.delete(
                SPECIFIED_PODS, meta.namespace, meta.name, uid=meta.uid, grace_seconds=0
            )
        except NotFound:
            return
        except KubeError as error:
            _log.debug("pod not removed", pod=meta.key, error=repr(error))
            await asyncio.sleep(API_RETRY)
        else:
            return


_PAUSES = (0.2, 1.0, 5.0)  # seconds after failures in a row


class StatusManager:
    """Keeps the status of one pod in the API server up to date, as a kubelet's status manager.

    Args:
        compose: computes the desired status from the stored one.
    """

    def __init__(
        self,
        client: Client,
        pod: KubeletPod,
        compose: Callable[[ReportedPodStatus], ReportedPodStatus],
    ) -> None:
        self._client = client
        self._pod = pod
        self._compose = compose
        self._due = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._is_gone = False

    def seen(self, pod: KubeletPod) -> None:
        """Update the pod from the API server."""
        if not is_older(pod.metadata.resource_version, self._pod.metadata.resource_version):
            self._pod = pod

    def gone(self) -> None:
        """Stop writing, because the pod was removed."""
        self._is_gone = True
        self._settled.set()

    def changed(self) -> None:
        """Handle a possible change of the status."""
        if not self._is_gone:
            self._settled.clear()
            self._due.set()

    async def settle(self) -> None:
        """Wait until all changes are written."""
        await self._settled.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        failures = 0
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self._report()
            except NotFound:
                self.gone()
            except Conflict:
                self._due.set()
                await self._look()
            except KubeError as error:
                final = isinstance(error, Invalid)
                log = _log.error if final else _log.debug
                log("status not reported", pod=self._pod.metadata.key, error=repr(error))
                self._due.set()
                await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1
            else:
                failures = 0
                if not self._due.is_set():
                    self._settled.set()

    async def _report(self) -> None:
        pod = self._pod
        status = self._compose(pod.status)
        if not self._is_gone:
            answer = await write_status(self._client, PODS, pod.metadata, pod.status, status)
            if answer is not None:
                self.seen(answer)

    async def _look(self) -> None:
        """Read the pod after a conflict: it was changed or replaced."""
        meta = self._pod.metadata
        try:
            present = await self._client.get(PODS, meta.namespace, meta.name)
        except NotFound:
            self.gone()
        except KubeError:
            await asyncio.sleep(_PAUSES[0])
        else:
            if present.metadata.uid == meta.uid:
                self.seen(present)
            else:
                self.gone()


async def mount_volumes(
    sources: Sources,
    volumes: Volumes,
    meta: ObjectMeta,
    downward: DownwardValues,
    record_event: Callable[[str, str, str], None],
) -> None:
    """Create the volumes of a pod as soon as possible."""
    while True:
        with sources.watch(meta.namespace, volumes.sources) as changed:
            try:
                volumes.prepare(downward, await sources.read(meta.namespace, volumes.sources))
            except InvalidConfiguration as error:
                record_event("Warning", "FailedMount", str(error))
                await wait_at_most(changed, RECHECK_SECONDS)
            except KubeError as error:
                record_event("Warning", "FailedMount", f"cannot read volumes: {error}")
                await asyncio.sleep(API_RETRY)
            else:
                return
