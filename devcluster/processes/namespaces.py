"""Mode "namespaces": each pod has its own network, host name and processes. Needs root.

One process holds the namespaces of each pod. When it ends, because it is stopped or this process
has died, the kernel ends the pod's other processes and removes its link.

The network is a bridge, and veth pairs to pods. Everything uses `ip` (iproute2). Links into pods
are deleted explicitly: a namespace outlives its processes by minutes while cut connections wait for
an answer. The addresses of services are addresses of the bridge.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import shutil
from collections import deque
from collections.abc import Set as AbstractSet

from devcluster.processes.cluster_dir import TAG_VARIABLE, ClusterDir, supervisor_command
from devcluster.processes.network import permitted_users, ranges_of_others
from devcluster.processes.pod_sandbox import Isolation, PodSandbox

_ALL = ipaddress.IPv4Network("10.88.0.0/13")
_PREFIX = 20
_RULES = 10_000  # routing rules are between that number and its double
_CLUSTERS = 16
"""Maximum clusters that run at once: each tries every sixteenth of the networks."""


class IpFailed(OSError):  # noqa: N818 - what OSErrors are called
    """An `ip` command failed."""


async def ip(*commands: str) -> str:
    """Run `ip` commands in one batch, in order, up to the first that fails.

    Raises:
        IpFailed: one of them failed, or there is no `ip` on this machine.
    """
    program = shutil.which("ip")
    if program is None:
        raise IpFailed("there is no program `ip` on this machine: install iproute2")
    process = await asyncio.create_subprocess_exec(
        program,
        "-json",
        "-batch",
        "-",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    text = "".join(f"{command}\n" for command in commands)
    out, err = await process.communicate(text.encode())
    if process.returncode:
        raise IpFailed(f"ip: {err.decode(errors='replace').strip()} ({'; '.join(commands)})")
    return out.decode()


class Bridge:
    """The bridge of all pods of one cluster."""

    def __init__(self, cluster_dir: ClusterDir) -> None:
        self._cluster_dir = cluster_dir
        self.name = f"manta-{cluster_dir.id}"
        self._networks = list(_ALL.subnets(new_prefix=_PREFIX))[cluster_dir.number :: _CLUSTERS]
        self.network = self._networks[0]
        self._free: deque[str] = deque()
        self._links: dict[int, str] = {}
        self._made = 0
        self._services: set[str] = set()

    @property
    def address(self) -> str:
        """Address of the bridge, by which pods reach this machine."""
        return str(self.network[1])

    async def open(self) -> None:
        """Make the bridge.

        Raises:
            IpFailed: `ip` refused, or this machine uses all these addresses already.
        """
        routes = await ip("route show table all")
        free = [network for network in self._networks if not _overlapping(network, routes)]
        if not free:
            raise IpFailed(f"this machine has routes to all networks of {_ALL} that may be used")
        self.network = free[0]
        self._free.extend(str(address) for address in list(self.network.hosts())[1:])
        self._cluster_dir.record_link(self.name)
        await ip(
            f"link add {self.name} type bridge",
            f"addr add {self.address}/{_PREFIX} dev {self.name}",
            f"link set {self.name} up",
        )
        await self._keep_others_out()

    async def _keep_others_out(self) -> None:
        """Give other users of this machine no route to pods."""
        place = f"pref {_RULES + int(self._cluster_dir.id, 16) % _RULES}"
        for others in ranges_of_others(permitted_users()):
            rule = f"{place} to {self.network} uidrange {others} prohibit"
            self._cluster_dir.record_rule(rule)
            await ip(f"rule add {rule}")

    def assign(self) -> str:
        """Return an address for a pod: the one that has been free for longest.

        Raises:
            OSError: all are in use.
        """
        if not self._free:
            raise OSError(f"all addresses of {self.network} are in use")
        return self._free.popleft()

    def release(self, address: str) -> None:
        """Release the address of a deleted pod."""
        self._free.append(address)

    async def connect(self, pod: int) -> None:
        """Create a link from the bridge to `eth0` in the network namespace of process `pod`.

        Raises:
            IpFailed: `ip` refused.
        """
        self._made += 1
        link = self._links[pod] = f"m{self._cluster_dir.id}-{self._made}"
        self._cluster_dir.record_link(link)
        await ip(
            f"link add {link} type veth peer name eth0 netns {pod}",
            f"link set {link} master {self.name} up",
        )

    async def disconnect(self, pod: int) -> None:
        """Delete the link to the network namespace of process `pod`, if it exists."""
        link = self._links.pop(pod, None)
        if link is not None:
            with contextlib.suppress(IpFailed):  # deleted with its namespace
                await ip(f"link delete {link}")

    def commands_inside(self, address: str) -> list[str]:
        """Return the `ip` commands to run in the pod's namespace."""
        return [
            "link set lo up",
            f"addr add {address}/{_PREFIX} dev eth0",
            "link set eth0 up",
            f"route add default via {self.address}",
        ]

    async def hold_services(self, addresses: AbstractSet[str]) -> None:
        """Assign exactly these service addresses to the bridge, besides its own.

        Raises:
            IpFailed: `ip` refused.
        """
        wanted = set(addresses)
        commands = [f"addr del {old}/32 dev {self.name}" for old in self._services - wanted]
        commands += [f"addr add {new}/32 dev {self.name}" for new in wanted - self._services]
        if commands:
            await ip(*commands)
        self._services = wanted


def _overlapping(network: ipaddress.IPv4Network, routes: str) -> bool:
    """Return whether `routes` (JSON) has a destination in `network`, or one that contains it."""
    for route in json.loads(routes or "[]"):
        destination = route["dst"]
        if (
            destination != "default"
            and ":" not in destination
            and network.overlaps(ipaddress.ip_network(destination))
        ):
            return True
    return False


class NamespaceIsolation(Isolation):
    """Pods in namespaces of their own, each held by a process."""

    mode = "namespaces"

    def __init__(self, cluster_dir: ClusterDir, bridge: Bridge) -> None:
        """Use `open_namespaces`."""
        super().__init__(cluster_dir)
        self._holders: dict[str, asyncio.subprocess.Process] = {}
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

    async def _connect(self, sandbox: PodSandbox, name: str) -> None:
        sandbox.ip = self.host_ip if sandbox.host_network else self.bridge.assign()
        try:
            holder, sandbox.pod = await self._hold(sandbox, name)
        except OSError:
            if not sandbox.host_network:
                self.bridge.release(sandbox.ip)
            raise
        self._holders[sandbox.uid] = holder

    async def _disconnect(self, sandbox: PodSandbox) -> None:
        holder = self._holders.pop(sandbox.uid)
        await holder.communicate()  # waits for all that inherited its pipes
        await self.bridge.disconnect(holder.pid)
        if not sandbox.host_network:
            self.bridge.release(sandbox.ip)

    async def _hold(self, sandbox: PodSandbox, name: str) -> tuple[asyncio.subprocess.Process, int]:
        """Start the process that holds the namespaces; return it and its first child's pid."""
        holder = await asyncio.create_subprocess_exec(
            *supervisor_command(
                "hold",
                sandbox.hostname,
                str(sandbox.lifeline),
                "host" if sandbox.host_network else "pod",
            ),
            env={TAG_VARIABLE: f"{sandbox.root}/", "PATH": os.defpath + ":/sbin:/usr/sbin"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert holder.stdin is not None
        try:
            await _read_reply(holder, "ready")
            commands = ["-"]
            if not sandbox.host_network:
                await self.bridge.connect(holder.pid)
                commands = self.bridge.commands_inside(sandbox.ip)
            holder.stdin.write(f"{';'.join(commands)}\n".encode())
            answer = await _read_reply(holder, "up")
        except OSError as failure:
            if holder.returncode is None:
                holder.kill()
            await holder.communicate()
            await self.bridge.disconnect(holder.pid)
            raise OSError(f"namespaces for pod {name} cannot be made: {failure}") from failure
        return holder, int(answer)

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
