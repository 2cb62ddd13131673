"""Shared dependencies of all pods of a process kubelet, and of the containers of one pod."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from controller.devcluster.nodes.settings import NodeSettings
    from controller.devcluster.processes.api_access import ApiAccess
    from controller.devcluster.processes.events import PodEvents
    from controller.devcluster.processes.machine.pod_sandbox import Isolation, PodSandbox
    from controller.devcluster.processes.output.output import Outputs
    from controller.devcluster.processes.specification.downward_api import DownwardValues
    from controller.devcluster.processes.specification.images import Images
    from controller.devcluster.processes.specification.specification import (
        ContainerSpecification,
        SpecifiedPod,
    )
    from controller.devcluster.processes.start_slots import StartSlots
    from controller.devcluster.processes.volumes.sources import Sources
    from controller.devcluster.processes.volumes.volumes import Volumes
    from controller.kube.client import Client


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
