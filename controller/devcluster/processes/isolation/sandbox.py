"""A pod sandbox whose containers are supervised processes of this machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from controller.devcluster.processes.isolation.container_dirs import (
    SandboxConfig,
    create_container_dir,
)
from controller.devcluster.processes.machine.pod_sandbox import Mount
from controller.devcluster.processes.network.names import hosts_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.devcluster.processes.isolation.container_dirs import ProcessContainerDir
    from controller.devcluster.processes.machine.pod_sandbox import ContainerConfig

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
