"""Mode "namespaces": each pod has its own network, host name and processes. Needs root.

One process holds the namespaces of each pod. When it ends, because it is stopped or this process
has died, the kernel ends the pod's other processes and removes its link.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.devcluster.processes.isolation.bridge import Bridge
from controller.devcluster.processes.isolation.container_dirs import (
    SandboxConfig,
)
from controller.devcluster.processes.isolation.process_isolation import ProcessIsolation
from controller.devcluster.processes.isolation.sandbox import RESOLV, ProcessSandbox
from controller.devcluster.processes.machine.cluster_dir import kill_tagged
from controller.devcluster.processes.machine.process_tags import TAG_VARIABLE
from controller.devcluster.processes.machine.supervisor_command import supervisor_command

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from controller.devcluster.processes.machine.cluster_dir import ClusterDir
    from controller.devcluster.processes.machine.pod_sandbox import Mode


@dataclass(slots=True)
class NamespaceSandbox(ProcessSandbox):
    """Implements `PodSandbox`.

    Attributes:
        holder: the process that holds the namespaces.
    """

    holder: asyncio.subprocess.Process


class NamespaceIsolation(ProcessIsolation[NamespaceSandbox]):
    """Implements `Isolation`."""

    mode: Mode = "namespaces"

    def __init__(self, cluster_dir: ClusterDir, bridge: Bridge) -> None:
        """Use `open_namespaces`."""
        super().__init__(cluster_dir)
        self._numbers = itertools.count()
        self.bridge = bridge

    @property
    def description(self) -> str:
        """Description for users."""
        return (
            f"each pod has network, process and mount namespaces of its own, and an address of "
            f"{self.bridge.network} on the bridge {self.bridge.name}; pods do not reach the "
            "internet, and other users of this machine do not reach pods"
        )

    @property
    def host_ip(self) -> str:
        """The bridge's address."""
        return self.bridge.address

    async def open_pod(
        self, uid: str, *, namespace: str, name: str, hostname: str, host_network: bool = False
    ) -> NamespaceSandbox:
        """Create the sandbox of a pod, or return the one that its uid has.

        Raises:
            OSError: it cannot be made.
        """
        if uid in self._sandboxes:
            return self._sandboxes[uid]
        label = f"p{next(self._numbers)}"
        root = self._cluster_dir.root / label
        root.mkdir(mode=0o755)
        network = root / "network"
        network.mkdir()
        (network / "resolv.conf").write_text(RESOLV)
        ip = self.host_ip if host_network else self.bridge.assign()
        try:
            holder, pod = await self._hold(root, name, hostname, ip, host_network=host_network)
        except OSError:
            shutil.rmtree(root, ignore_errors=True)
            if not host_network:
                self.bridge.release(ip)
            raise
        setting = SandboxConfig(root, self._cluster_dir.lifeline, pod, host_network, network)
        sandbox = NamespaceSandbox(
            uid, namespace, hostname, ip, root, network, setting, itertools.count(), holder
        )
        sandbox.write_hosts_file(self._names)
        self._sandboxes[uid] = sandbox
        return sandbox

    async def _hold(
        self, root: Path, name: str, hostname: str, ip: str, *, host_network: bool
    ) -> tuple[asyncio.subprocess.Process, int]:
        """Start the process that holds the namespaces; return it and its first child's pid."""
        holder = await asyncio.create_subprocess_exec(
            *supervisor_command(
                "hold", hostname, str(self._cluster_dir.lifeline), "host" if host_network else "pod"
            ),
            env={TAG_VARIABLE: f"{root}/", "PATH": os.defpath + ":/sbin:/usr/sbin"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert holder.stdin is not None
        try:
            await _read_reply(holder, "ready")
            commands = ["-"]
            if not host_network:
                await self.bridge.connect(holder.pid)
                commands = self.bridge.commands_inside(ip)
            holder.stdin.write(f"{';'.join(commands)}\n".encode())
            answer = await _read_reply(holder, "up")
        except OSError as failure:
            if holder.returncode is None:
                holder.kill()
            await holder.communicate()
            await self.bridge.disconnect(holder.pid)
            raise OSError(f"namespaces for pod {name} cannot be made: {failure}") from failure
        return holder, int(answer)

    async def _end(self, sandbox: NamespaceSandbox) -> None:
        if sandbox.holder.returncode is None:
            sandbox.holder.kill()
        await asyncio.to_thread(kill_tagged, f"{sandbox.root}/")
        await sandbox.holder.communicate()  # waits for all that inherited its pipes
        await self.bridge.disconnect(sandbox.holder.pid)
        if not sandbox.setting.host_network:
            self.bridge.release(sandbox.ip)
        await asyncio.to_thread(shutil.rmtree, sandbox.root, ignore_errors=True)

    async def hold(self, addresses: AbstractSet[str]) -> dict[str, str]:
        """Assign exactly these service addresses to the bridge; return them.

        Raises:
            OSError: the machine refuses.
        """
        await self.bridge.hold_services(addresses)
        return {address: address for address in addresses}


async def open_namespaces(cluster_dir: ClusterDir) -> NamespaceIsolation:
    """Make the bridge.

    Raises:
        OSError: this machine refuses; the message says why.
    """
    if os.geteuid():
        raise PermissionError("it needs root")
    bridge = Bridge(cluster_dir)
    await bridge.open()
    return NamespaceIsolation(cluster_dir, bridge)


async def _read_reply(holder: asyncio.subprocess.Process, word: str) -> str:
    """Return the rest of the holder's reply after `word`.

    Raises:
        OSError: the reply is another one, or the holder has ended.
    """
    assert holder.stdout is not None
    assert holder.stderr is not None
    line = (await holder.stdout.readline()).decode().strip()
    said, _, rest = line.partition(" ")
    if said == word:
        return rest
    raise OSError(rest or (await holder.stderr.read()).decode().strip().rpartition("\n")[2])
