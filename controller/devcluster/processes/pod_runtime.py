"""Shared dependencies of all pods of a process kubelet, and of the containers of one pod."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from controller.devcluster.nodes.settings import NodeSettings
    from controller.devcluster.processes.api_access import ApiAccess
    from controller.devcluster.processes.environment import DownwardValues
    from controller.devcluster.processes.events import PodEvents
    from controller.devcluster.processes.images import Images
    from controller.devcluster.processes.output import Outputs
    from controller.devcluster.processes.pod_sandbox import Isolation, PodSandbox
    from controller.devcluster.processes.specification import ContainerSpecification, SpecifiedPod
    from controller.devcluster.processes.volume_sources import Sources
    from controller.devcluster.processes.volumes import Volumes
    from controller.kube.client import Client


class StartSlots:
    """Permits to start, each held until the container is ready, ends, or has had its time.

    Args:
        count: number of permits; 0 for one for each CPU.
        seconds: maximum time for which one is held.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self._free = asyncio.Semaphore(count or os.cpu_count() or 1)
        self._seconds = seconds

    async def take(self) -> StartSlot:
        """Wait for a permit, in the order of the calls."""
        await self._free.acquire()
        return StartSlot(self._free, self._seconds)


class StartSlot:
    """A permit that is held until it is released or its time is over.

    Args:
        free: semaphore that is released once.
        seconds: seconds until it is released in any case.
    """

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


@dataclass(frozen=True, slots=True)
class KubeletDirs:
    """Directories of the kubelet outside the pods' sandboxes.

    Attributes:
        claims: directories of persistent volume claims, by uid.
        memory: volumes of medium Memory, by pod.
    """

    claims: Path
    memory: Path


@dataclass(frozen=True, slots=True)
class PodRuntime:
    """Dependencies that all pods share.

    Attributes:
        client: access to the API server.
        isolation: creates sandboxes for pods.
        images: environments by image.
        outputs: output of containers.
        sources: config maps, secrets and claims.
        events: records events.
        settings: pauses.
        start_slots: permits to start a container.
        wall: returns the time in UTC.
        dirs: directories of the kubelet.
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
    dirs: KubeletDirs
    access: ApiAccess | None


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """Dependencies that the containers of one pod share.

    Attributes:
        runtime: shared by all pods.
        pod: the pod in its state at the start.
        sandbox: its sandbox.
        downward: values that the machine adds.
        volumes: its volumes.
        changed: called when a container's status has changed.
    """

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
