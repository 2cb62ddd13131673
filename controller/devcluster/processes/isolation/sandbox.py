"""A pod's sandbox of supervised processes, its containers' directories, and what modes share."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from controller.devcluster.processes.cluster_dir import (
    TAG_VARIABLE,
    kill_tagged,
    supervisor_command,
)
from controller.devcluster.processes.network.services import hosts_file
from controller.devcluster.processes.pod_sandbox import Launch, Mount
from controller.devcluster.processes.supervisor.container_dir import KILL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from controller.devcluster.processes.cluster_dir import ClusterDir
    from controller.devcluster.processes.pod_sandbox import ContainerConfig, PodSandbox


_LISTS = frozenset({"LD_PRELOAD", "PYTHONPATH"})


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """The shared configuration of a pod's containers.

    Attributes:
        root: folder of the pod.
        lifeline: see `Host.lifeline`.
        pod: process that holds the pod's namespaces; 0 if there are none.
        host_network: whether the pod has no network of its own.
        network: folder with the pod's hosts and resolv.conf.
        namespaced: whether containers have namespaces.
        hostname: host name for namespaced containers of a pod without namespaces.
        env: variables added to every container's environment.
    """

    root: Path
    lifeline: Path
    pod: int = 0
    host_network: bool = False
    network: Path | None = None
    namespaced: bool = True
    hostname: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])


class ProcessContainerDir:
    """A container directory whose commands run in a supervisor process.

    Attributes:
        translate: maps words of commands to this machine where containers share its files.
    """

    def __init__(self, root: Path) -> None:
        """Use `create_container_dir`."""
        self.root = root
        self.translate: Callable[[str], str] = str

    def command(self, argv: Sequence[str]) -> Launch:
        """Return the launch of the container's main command."""
        return self._launch("run", argv)

    def exec(self, argv: Sequence[str]) -> Launch:
        """Return the launch of another command beside the main one."""
        return self._launch("exec", argv)

    def _launch(self, verb: str, argv: Sequence[str]) -> Launch:
        words = [self.translate(word) for word in argv]
        command = supervisor_command(verb, str(self.root), *words)
        return Launch(command, {TAG_VARIABLE: f"{self.root}/"}, self.root, KILL)

    def start_error(self) -> str:
        """Return why the command could not be started; empty if it could."""
        try:
            return (self.root / "error").read_text()
        except FileNotFoundError:
            return ""

    async def close(self) -> None:
        """Kill its processes and remove its directory."""
        await asyncio.to_thread(kill_tagged, f"{self.root}/")
        await asyncio.to_thread(shutil.rmtree, self.root, ignore_errors=True)


def create_container_dir(
    setting: SandboxConfig, number: int, config: ContainerConfig
) -> ProcessContainerDir:
    """Create the directory of a container, with the supervisor's configuration.

    Raises:
        OSError: it cannot be made.
    """
    root = setting.root / str(number)
    root.mkdir(mode=0o700)
    order: dict[str, Any] = {
        "root": str(root),
        "lifeline": str(setting.lifeline),
        "pod": setting.pod,
        "host_network": setting.host_network,
        "network": str(setting.network or ""),
        "cwd": config.cwd,
        "namespaced": setting.namespaced,
        "hostname": setting.hostname,
        "env": {**config.env, **_joined(setting.env, config.env), TAG_VARIABLE: f"{root}/"},
        "mounts": [
            {
                "source": str(mount.source.resolve(strict=True)),
                "target": os.path.normpath(mount.target),
                "read_only": mount.read_only,
            }
            for mount in config.mounts
        ],
    }
    file = os.open(root / "container.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w") as stream:
        json.dump(order, stream)
    return ProcessContainerDir(root)


def _joined(given: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the mode, whose path lists come before the container's."""
    return {
        name: f"{value}:{env[name]}" if name in _LISTS and env.get(name) else value
        for name, value in given.items()
    }


_PRIVATE = (Path("/tmp"), Path("/run"), Path("/dev"))  # noqa: S108 - a container has its own
RESOLV = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
"""Resolver configuration without a name server, so that unknown names fail at once."""


@dataclass(slots=True)
class ProcessSandbox:
    """Implements `PodSandbox` for containers that have their own file system.

    Attributes:
        uid: `metadata.uid` of the pod.
        namespace: `metadata.namespace`.
        hostname: the pod's host name.
        ip: the pod's address.
        root: the pod's private directory.
        network: directory with the pod's hosts file and `resolv.conf`.
        setting: shared configuration of the pod's containers.
        numbers: numbers of the runs of containers.
    """

    uid: str
    namespace: str
    hostname: str
    ip: str
    root: Path
    network: Path
    setting: SandboxConfig
    numbers: Iterator[int]

    def write_hosts_file(self, names: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Write the hosts file atomically: readers see the old file or the new one."""
        text = hosts_file(names, namespace=self.namespace, hostname=self.hostname, ip=self.ip)
        new = self.network / "hosts.new"
        new.write_text(text)
        new.replace(self.network / "hosts")

    async def create_container_dir(
        self, container: str, config: ContainerConfig
    ) -> ProcessContainerDir:
        """Return a new directory for the next run of `container`."""
        del container  # its processes share nothing but the pod's network with other runs
        visible = replace(config, mounts=[*path_mounts(config.env), *config.mounts])
        return create_container_dir(self.setting, next(self.numbers), visible)


def path_mounts(env: Mapping[str, str]) -> list[Mount]:
    """Return mounts of environments on PATH below directories private to containers."""
    found: list[Mount] = []
    for entry in env.get("PATH", "").split(":"):
        folder = Path(entry)
        private = any(folder.is_relative_to(private) for private in _PRIVATE)
        if private and folder.name == "bin" and folder.is_dir():
            found.append(Mount(folder.parent, str(folder.parent)))
    return found


S = TypeVar("S", bound=ProcessSandbox)


class ProcessIsolation(ABC, Generic[S]):
    """The sandboxes by uid of their pod, and the names of services in them."""

    def __init__(self, cluster_dir: ClusterDir) -> None:
        self._cluster_dir = cluster_dir
        self._sandboxes: dict[str, S] = {}
        self._names: dict[tuple[str, str], tuple[str, ...]] = {}

    async def close_pod(self, sandbox: PodSandbox) -> None:
        """Kill its processes and remove its network and directory."""
        for own in list(self._sandboxes.values()):
            if own is sandbox:
                del self._sandboxes[own.uid]
                await self._end(own)

    def is_pod(self, address: str) -> bool:
        """Return whether a pod with a network of its own has that address."""
        return any(
            sandbox.ip == address and sandbox.setting.pod and not sandbox.setting.host_network
            for sandbox in self._sandboxes.values()
        )

    @abstractmethod
    async def _end(self, sandbox: S) -> None:
        """Kill the processes of a sandbox and remove its network and directory."""

    def publish(self, names: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Rewrite the hosts files of all pods."""
        self._names = dict(names)
        for sandbox in self._sandboxes.values():
            sandbox.write_hosts_file(self._names)

    async def aclose(self) -> None:
        """Close all pods and remove their files."""
        for sandbox in list(self._sandboxes.values()):
            await self.close_pod(sandbox)
        await asyncio.to_thread(self._cluster_dir.close)
