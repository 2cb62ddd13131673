"""Pod sandboxes and container directories: the process kubelet's interface to the machine.

A sandbox holds a pod's network address and host name, as in the container runtime interface. A
`ContainerDir` in it belongs to one run of one container and has its own file system where the
machine permits that. The isolation mode is selected at start; no other code depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path


Mode = Literal["namespaces", "shim", "shared"]
"""Network namespaces as root; a preloaded library; or the machine's network for all pods."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine that a container sees at a path of its own.

    Attributes:
        source: the file or folder; it exists.
        target: absolute path in the container; parents that are missing are made there only.
        read_only: whether the container may not write to it (not enforced in every mode).
    """

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """The files and limits that the processes of a container see.

    Attributes:
        cwd: working directory in the container, created if it is missing; "" means the root.
        env: the container's whole environment; the mode may add variables.
        mounts: volumes, any order.
    """

    cwd: str
    env: Mapping[str, str]
    mounts: Sequence[Mount] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """Arguments of `asyncio.create_subprocess_exec(*argv, env=env, cwd=cwd)`.

    The started process supervises the command. It forwards SIGTERM, SIGINT, SIGHUP, SIGQUIT,
    SIGUSR1 and SIGUSR2 to the command and exits with the command's status: 128 + n after signal n,
    as container runtimes report it, or 127 with a sentence in `ContainerDir.start_error` if the
    command could not be started. Every process that the command has started ends with it.

    Attributes:
        argv: program and arguments.
        env: the whole environment of the supervisor.
        cwd: working directory of the supervisor.
        kill_signal: makes the supervisor kill all processes of the container at once. Use it
            instead of SIGKILL, which need not reach the command's descendants.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    kill_signal: signal.Signals | int


class ContainerDir(Protocol):
    """One run of one container, with a new directory and an empty /tmp."""

    @property
    def root(self) -> Path:
        """Private folder of this run; removed by `close`."""
        ...

    def command(self, argv: Sequence[str]) -> Launch:
        """Return the launch of the container's main command. To be started once."""
        ...

    def exec(self, argv: Sequence[str]) -> Launch:
        """Return the launch of another command beside the main one, for exec probes and hooks.

        It has the same environment, working directory and files. Once the main command has ended
        it exits with 126.
        """
        ...

    def start_error(self) -> str:
        """Return why the command could not be started; empty if it could."""
        ...

    async def close(self) -> None:
        """Kill its processes and remove its directory."""
        ...


class PodSandbox(Protocol):
    """The sandbox in which one pod runs."""

    @property
    def ip(self) -> str:
        """The pod's address, reachable from this machine and from other pods."""
        ...

    @property
    def root(self) -> Path:
        """Private folder with a short path, for volumes; removed by `Isolation.close_pod`."""
        ...

    async def create_container_dir(self, container: str, config: ContainerConfig) -> ContainerDir:
        """Return a new directory for the next run of `container`.

        Args:
            container: name of the container.
            config: its files and limits.

        Raises:
            OSError: it cannot be made; the text says why.
        """
        ...


class Isolation(Protocol):
    """A way to give pods addresses and to run their containers."""

    @property
    def mode(self) -> Mode:
        """The isolation mode."""
        ...

    @property
    def description(self) -> str:
        """Description for users: the chosen mode, the reason, and what it lacks."""
        ...

    @property
    def host_ip(self) -> str:
        """An address of this machine that pods reach: the `hostIP` of every pod."""
        ...

    async def open_pod(
        self, uid: str, *, namespace: str, name: str, hostname: str, host_network: bool = False
    ) -> PodSandbox:
        """Create the sandbox of a pod, or return the one that its uid has.

        Args:
            uid: `metadata.uid`.
            namespace: `metadata.namespace`: which services have short names there.
            name: `metadata.name`, for messages.
            hostname: `spec.hostname` or the name.
            host_network: whether the pod shares this machine's network.

        Raises:
            OSError: it cannot be made; the text says why.
        """
        ...

    async def close_pod(self, sandbox: PodSandbox) -> None:
        """Kill its processes and remove its network and directory."""
        ...

    def is_pod(self, address: str) -> bool:
        """Return whether a pod with a network of its own has that address."""
        ...

    async def hold(self, addresses: AbstractSet[str]) -> Mapping[str, str]:
        """Make this machine have exactly these addresses of services.

        Returns the address to listen on, and to publish, for each.

        Raises:
            OSError: the machine refuses.
        """
        ...

    def publish(self, names: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Make services known to present and future pods by these names.

        Args:
            names: addresses by namespace and service.
        """
        ...

    async def aclose(self) -> None:
        """Close all pods and remove their files."""
        ...
