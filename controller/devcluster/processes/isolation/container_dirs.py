"""Container directories: one for each run of a container, with the supervisor's configuration."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.devcluster.processes.machine.cluster_dir import kill_tagged
from controller.devcluster.processes.machine.pod_sandbox import Launch
from controller.devcluster.processes.machine.process_tags import TAG_VARIABLE
from controller.devcluster.processes.machine.supervisor_command import supervisor_command
from controller.devcluster.processes.supervisor.container_dir import KILL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from controller.devcluster.processes.machine.pod_sandbox import ContainerConfig


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
