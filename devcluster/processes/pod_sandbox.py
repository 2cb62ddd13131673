"""Pod sandboxes and container directories: the process kubelet's interface to the machine.

A sandbox holds a pod's network address and host name, as in the container runtime interface. A
`ContainerDir` in it belongs to one run of one container and has its own file system where the
machine permits that. The isolation mode is selected at start; no other code depends on it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from devcluster.processes.cluster_dir import (
    TAG_VARIABLE,
    ClusterDir,
    kill_tagged,
    supervisor_command,
)
from devcluster.processes.supervisor.container_dir import KILL

Mode = Literal["namespaces", "shim"]
"""Network namespaces as root, or a preloaded library."""


class Mount(msgspec.Struct, frozen=True):
    """A file or folder of this machine that a container sees at a path of its own.

    Attributes:
        source: the file or folder; it exists.
        target: absolute path in the container; parents that are missing are made there only.
        read_only: whether the container may not write to it (not enforced in every mode).
    """

    source: Path
    target: str
    read_only: bool = False


class ContainerConfig(msgspec.Struct, frozen=True):
    """The files and limits that the processes of a container see.

    Attributes:
        cwd: working directory in the container, created if it is missing; "" means the root.
        env: the container's whole environment; the mode may add variables.
    """

    cwd: str
    env: Mapping[str, str]
    mounts: Sequence[Mount] = ()


class Launch(msgspec.Struct, frozen=True):
    """Arguments of `asyncio.create_subprocess_exec(*argv, env=env, cwd=cwd)`.

    The started process supervises the command. It forwards SIGTERM, SIGINT, SIGHUP, SIGQUIT,
    SIGUSR1 and SIGUSR2 to the command and exits with the command's status: 128 + n after signal n,
    as container runtimes report it, or 127 with a sentence in `ContainerDir.start_error` if the
    command could not be started. Every process that the command has started ends with it.

    Attributes:
        kill_signal: makes the supervisor kill all processes of the container at once. Use it
            instead of SIGKILL, which need not reach the command's descendants.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    kill_signal: signal.Signals | int


_LISTS = frozenset({"LD_PRELOAD", "PYTHONPATH"})


class ContainerDir:
    """One run of one container, with a new directory and an empty /tmp.

    Its commands run in a supervisor process.

    Attributes:
        root: private folder of this run; removed by `close`.
        translate: maps words of commands to this machine where containers share its files.
    """

    def __init__(self, root: Path) -> None:
        """Use `create_container_dir`."""
        self.root = root
        self.translate: Callable[[str], str] = str

    def command(self, argv: Sequence[str]) -> Launch:
        """Return the launch of the container's main command. To be started once."""
        return self._launch("run", argv)

    def exec(self, argv: Sequence[str]) -> Launch:
        """Return the launch of another command beside the main one, for exec probes and hooks.

        It has the same environment, working directory and files. Once the main command has ended
        it exits with 126.
        """
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


def _container_dir(sandbox: PodSandbox, number: int, config: ContainerConfig) -> ContainerDir:
    """Create the directory of a container, with the supervisor's configuration.

    Raises:
        OSError: it cannot be made.
    """
    root = sandbox.root / str(number)
    root.mkdir(mode=0o700)
    order: dict[str, Any] = {
        "root": str(root),
        "lifeline": str(sandbox.lifeline),
        "pod": sandbox.pod,
        "host_network": sandbox.host_network,
        "network": str(sandbox.network),
        "cwd": config.cwd,
        "namespaced": sandbox.namespaced,
        "hostname": sandbox.hostname,
        "env": {**config.env, **_joined(sandbox.env, config.env), TAG_VARIABLE: f"{root}/"},
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
    return ContainerDir(root)


def _joined(given: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the mode, whose path lists come before the container's."""
    return {
        name: f"{value}:{env[name]}" if name in _LISTS and env.get(name) else value
        for name, value in given.items()
    }


_PRIVATE = (Path("/tmp"), Path("/run"), Path("/dev"))  # noqa: S108 - a container has its own
RESOLV = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
"""Resolver configuration without a name server, so that unknown names fail at once."""


def path_mounts(env: Mapping[str, str]) -> list[Mount]:
    """Return mounts of environments on PATH below directories private to containers."""
    found: list[Mount] = []
    for entry in env.get("PATH", "").split(":"):
        folder = Path(entry)
        private = any(folder.is_relative_to(private) for private in _PRIVATE)
        if private and folder.name == "bin" and folder.is_dir():
            found.append(Mount(folder.parent, str(folder.parent)))
    return found


# The hosts file of a pod, in place of the cluster's DNS.


DOMAIN = "cluster.local"


def hosts_file(
    names: Mapping[tuple[str, str], tuple[str, ...]], *, namespace: str, hostname: str, ip: str
) -> str:
    """Return the text of a pod's hosts file: addresses by namespace and service."""
    lines = ["127.0.0.1 localhost", f"{ip} {hostname}"]
    for (space, service), found in sorted(names.items()):
        full = f"{service}.{space}.svc.{DOMAIN}"
        others = [f"{service}.{space}.svc", f"{service}.{space}"]
        if space == namespace and service != hostname:  # a pod's own name resolves to the pod
            others.append(service)
        lines += [" ".join([address, full, *others]) for address in found]
    return "".join(f"{line}\n" for line in lines)


@dataclass(slots=True)
class PodSandbox:
    """The sandbox in which one pod runs.

    Attributes:
        hostname: also that of namespaced containers of a pod without namespaces.
        root: private folder with a short path, for volumes; removed by `Isolation.close_pod`.
        ip: the pod's address, reachable from this machine and from other pods.
        pod: process that holds the pod's namespaces; 0 if there are none.
        namespaced: whether each container has a file system of its own.
    """

    uid: str
    namespace: str
    hostname: str
    root: Path
    lifeline: Path
    host_network: bool = False
    ip: str = ""
    pod: int = 0
    namespaced: bool = True
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def network(self) -> Path:
        """Folder with the pod's hosts file and `resolv.conf`."""
        return self.root / "network"

    def write_hosts_file(self, names: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Write the hosts file atomically: readers see the old file or the new one."""
        text = hosts_file(names, namespace=self.namespace, hostname=self.hostname, ip=self.ip)
        new = self.network / "hosts.new"
        new.write_text(text)
        new.replace(self.network / "hosts")

    def create_container_dir(self, config: ContainerConfig) -> ContainerDir:
        """Return a new directory for a run of a container.

        Raises:
            OSError: it cannot be made; the text says why.
        """
        number = next(self._numbers)
        if not self.namespaced:
            return _beside(self, number, config)
        visible = replace(config, mounts=[*path_mounts(config.env), *config.mounts])
        return _container_dir(self, number, visible)


def _beside(sandbox: PodSandbox, number: int, config: ContainerConfig) -> ContainerDir:
    """Create the directory of a container that shares this machine's files.

    Paths of volumes are replaced in its commands and variables.
    """
    paths = {mount.target.rstrip("/"): str(mount.source) for mount in config.mounts}
    longest_first = sorted(filter(None, paths), key=len, reverse=True)

    def here(text: str) -> str:
        for target in longest_first:
            text = text.replace(target, paths[target])
        return text

    temporary = sandbox.root / str(number) / "t"
    variables = {name: here(value) for name, value in config.env.items()}
    cwd = here(config.cwd)
    container_dir = _container_dir(
        sandbox,
        number,
        ContainerConfig(
            cwd if cwd and Path(cwd).is_dir() else str(temporary),
            {**variables, "TMPDIR": str(temporary), "RAY_TMPDIR": str(temporary)},
        ),
    )
    temporary.mkdir()
    container_dir.translate = here
    return container_dir


class Isolation(ABC):
    """A way to give pods addresses and to run their containers."""

    mode: Mode

    def __init__(self, cluster_dir: ClusterDir) -> None:
        self._cluster_dir = cluster_dir
        self._sandboxes: dict[str, PodSandbox] = {}
        self._names: dict[tuple[str, str], tuple[str, ...]] = {}
        self._labels = itertools.count()

    @property
    @abstractmethod
    def description(self) -> str:
        """Description for users: the chosen mode, the reason, and what it lacks."""

    @property
    @abstractmethod
    def host_ip(self) -> str:
        """An address of this machine that pods reach: the `hostIP` of every pod."""

    @abstractmethod
    async def hold(self, addresses: AbstractSet[str]) -> Mapping[str, str]:
        """Make this machine have exactly these addresses of services.

        Returns the address to listen on, and to publish, for each.

        Raises:
            OSError: the machine refuses.
        """

    async def open_pod(
        self, uid: str, *, namespace: str, name: str, hostname: str, host_network: bool = False
    ) -> PodSandbox:
        """Create the sandbox of a pod, or return the one that its uid has.

        Raises:
            OSError: it cannot be made; the text says why.
        """
        if uid in self._sandboxes:
            return self._sandboxes[uid]
        root = self._cluster_dir.root / f"p{next(self._labels)}"
        lifeline = self._cluster_dir.lifeline
        sandbox = PodSandbox(uid, namespace, hostname, root, lifeline, host_network)
        root.mkdir(mode=0o755, parents=True)  # nobody else writes, whatever the umask
        sandbox.network.mkdir()
        (sandbox.network / "resolv.conf").write_text(RESOLV)
        try:
            await self._connect(sandbox, name)
        except OSError:
            shutil.rmtree(root, ignore_errors=True)
            raise
        sandbox.write_hosts_file(self._names)
        self._sandboxes[uid] = sandbox
        return sandbox

    @abstractmethod
    async def _connect(self, sandbox: PodSandbox, name: str) -> None:
        """Give a new pod its address, and the setting of its containers."""

    async def close_pod(self, sandbox: PodSandbox) -> None:
        """Kill its processes and remove its network and directory."""
        if self._sandboxes.get(sandbox.uid) is sandbox:
            del self._sandboxes[sandbox.uid]
            await asyncio.to_thread(kill_tagged, f"{sandbox.root}/")
            await self._disconnect(sandbox)
            await asyncio.to_thread(shutil.rmtree, sandbox.root, ignore_errors=True)

    async def _disconnect(self, sandbox: PodSandbox) -> None:  # noqa: B027 - not all have one
        """Remove the network of a pod whose processes are killed."""

    def is_pod(self, address: str) -> bool:
        """Return whether a pod with a network of its own has that address."""
        return any(
            sandbox.ip == address and sandbox.pod and not sandbox.host_network
            for sandbox in self._sandboxes.values()
        )

    def publish(self, names: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Make services known to present and future pods by these names."""
        self._names = dict(names)
        for sandbox in self._sandboxes.values():
            sandbox.write_hosts_file(self._names)

    async def aclose(self) -> None:
        """Close all pods and remove their files."""
        for sandbox in list(self._sandboxes.values()):
            await self.close_pod(sandbox)
        await asyncio.to_thread(self._cluster_dir.close)
