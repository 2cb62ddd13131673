"""Mode "shim": each pod has an address of its own on the loopback network, without privileges.

A library that is loaded into every process of a pod keeps its listeners and connections at the
pod's address. Containers have files and processes of their own where this machine lets users make
namespaces; where it does not, they share those of the user, and paths of volumes are replaced in
commands and variables.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import shutil
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

from controller.devcluster.processes.isolation.cluster_dir import end_all
from controller.devcluster.processes.isolation.container_dirs import (
    Setting,
    furnish,
)
from controller.devcluster.processes.isolation.namespaces import RESOLV, programs
from controller.devcluster.processes.isolation.preload_library import library
from controller.devcluster.processes.isolation.supervisor_command import supervisor_command
from controller.devcluster.processes.network.names import hosts_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from controller.devcluster.processes.isolation.cluster_dir import Host
    from controller.devcluster.processes.isolation.container_dirs import ProcessRoom
    from controller.devcluster.processes.isolation.protocols import Mode, Mount, PodPlace

_PODS, _SERVICES = 64, 96
"""Second byte of the first cluster's addresses, 127.64.x.y and 127.96.x.y."""
_CLUSTER_SERVICES = "10.96"
INSIDE = "/.network"


@dataclass(slots=True)
class ShimPlace:
    """A pod's place: see `PodPlace`."""

    uid: str
    namespace: str
    hostname: str
    ip: str
    root: Path
    network: Path
    setting: Setting
    numbers: Iterator[int]
    translate: Callable[[str], str]

    def learn(self, names: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Write the hosts file; whoever reads it meanwhile has the old one or the new one."""
        text = hosts_file(names, namespace=self.namespace, hostname=self.hostname, ip=self.ip)
        new = self.network / "hosts.new"
        new.write_text(text)
        new.replace(self.network / "hosts")

    async def room(
        self,
        container: str,
        *,
        cwd: str,
        env: Mapping[str, str],
        mounts: Sequence[Mount],
    ) -> ProcessRoom:
        """A fresh room for the next run of `container`."""
        del container
        number = next(self.numbers)
        if self.setting.inside:
            seen = [*programs(env), *mounts]
            return furnish(self.setting, number, cwd=cwd, env=env, mounts=seen)
        paths = {mount.target.rstrip("/"): str(mount.source) for mount in mounts}

        def here(text: str) -> str:
            return self.translate(_substituted(text, paths))

        temporary = self.setting.root / str(number) / "t"
        variables = {name: here(value) for name, value in env.items()}
        room = furnish(
            self.setting,
            number,
            cwd=_folder(here(cwd)) or str(temporary),
            env={**variables, "TMPDIR": str(temporary), "RAY_TMPDIR": str(temporary)},
            mounts=(),
        )
        temporary.mkdir()
        room.here = here
        return room


class Shim:
    """See `Isolation`."""

    mode: Mode = "shim"

    def __init__(self, host: Host, given: Path, *, namespaces: bool) -> None:
        """Use `open_shim`.

        Args:
            host: folder of the cluster.
            given: a file that every pod gets, the library.
            namespaces: whether containers have files of their own.
        """
        self._host = host
        self._given = given
        self._namespaces = namespaces
        self._places: dict[str, ShimPlace] = {}
        self._labels = itertools.count()
        # Not always the same first one: the kernel keeps ports of connections for a minute.
        first = 1 + secrets.randbelow(200)
        self._next = int(IPv4Address(f"127.{_PODS + host.number}.{first}.1"))
        self._names: dict[tuple[str, str], tuple[str, ...]] = {}

    @property
    def description(self) -> str:
        """For people."""
        return (
            f"each pod has an address 127.{_PODS + self._host.number}.x.y by a library that is "
            "preloaded into its processes; programs that are linked statically are not kept "
            "apart" + self._files
        )

    @property
    def _files(self) -> str:
        if self._namespaces:
            return ""
        return (
            "; pods share this machine's files, for it lets users make no namespaces: volumes are "
            "found only by paths in commands and variables"
        )

    @property
    def host_ip(self) -> str:
        """A loopback address that no pod has."""
        return f"127.{_PODS + self._host.number}.0.1"

    async def open_pod(
        self, uid: str, *, namespace: str, name: str, hostname: str, host_network: bool = False
    ) -> ShimPlace:
        """Give a pod a place; the same place again for a uid that has one.

        Raises:
            OSError: it cannot be made.
        """
        del name
        if uid in self._places:
            return self._places[uid]
        root = self._host.root / f"p{next(self._labels)}"
        network = root / "network"
        network.mkdir(parents=True)
        shutil.copy(self._given, network)
        (network / "resolv.conf").write_text(RESOLV)
        ip = self.host_ip
        if not host_network:
            ip, self._next = str(IPv4Address(self._next)), self._next + 1
        seen = INSIDE if self._namespaces else str(network)
        setting = Setting(
            root,
            self._host.lifeline,
            network=network,
            inside=self._namespaces,
            hostname=hostname,
            env={} if host_network else self._variables(seen, ip, hostname),
        )
        place = ShimPlace(
            uid,
            namespace,
            hostname,
            ip,
            root,
            network,
            setting,
            itertools.count(),
            self.translate,
        )
        place.learn(self._names)
        self._places[uid] = place
        return place

    def _variables(self, seen: str, ip: str, hostname: str) -> dict[str, str]:
        """What every process of a pod is given; its own files are in folder `seen`."""
        return {
            "LD_PRELOAD": f"{seen}/{self._given.name}",
            "RAY_LD_PRELOAD_ON_WORKERS": "1",
            "MANTA_POD_IP": ip,
            "MANTA_POD_NAME": hostname,
            "MANTA_HOSTS": f"{seen}/hosts",
            "MANTA_SERVICES": f"{_CLUSTER_SERVICES} 127.{_SERVICES + self._host.number}",
        }

    def translate(self, text: str) -> str:
        """What a word of a command or variable is to be where pods share this machine's files."""
        return text

    async def close_pod(self, place: PodPlace) -> None:
        """End every process that is left in it and remove its folder."""
        for own in list(self._places.values()):
            if own is place:
                del self._places[own.uid]
                await asyncio.to_thread(end_all, f"{own.root}/")
                await asyncio.to_thread(shutil.rmtree, own.root, ignore_errors=True)

    async def hold(self, addresses: AbstractSet[str]) -> dict[str, str]:
        """Services are on loopback too, where every address can be listened on."""
        return {
            address: f"127.{_SERVICES + self._host.number}.{address.split('.', 2)[2]}"
            for address in addresses
            if address.startswith(f"{_CLUSTER_SERVICES}.")
        }

    def publish(self, names: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Write the hosts files of all pods anew."""
        self._names = dict(names)
        for place in self._places.values():
            place.learn(self._names)

    async def aclose(self) -> None:
        """Close all pods, and remove all that was made for them."""
        for place in list(self._places.values()):
            await self.close_pod(place)
        await asyncio.to_thread(self._host.close)


def _folder(path: str) -> str:
    """The path if it is a folder of this machine, else nothing."""
    return path if path and Path(path).is_dir() else ""


def _substituted(text: str, paths: Mapping[str, str]) -> str:
    """`text` with the paths of volumes replaced by folders of this machine, longest first."""
    for target in sorted(paths, key=len, reverse=True):
        if target:
            text = text.replace(target, paths[target])
    return text


async def open_shim(host: Host) -> Shim:
    """Have the library, with files apart if this machine lets users make namespaces.

    Raises:
        OSError: there is no library; the text says why.
    """
    return Shim(host, await library(), namespaces=await namespaces_permitted(host))


async def namespaces_permitted(host: Host) -> bool:
    """Whether this user may make namespaces of processes and files on this machine, by trying."""
    folder = host.root / "trial"
    folder.mkdir()
    setting = Setting(folder, host.lifeline, network=folder / "network", hostname="trial")
    room = furnish(setting, 0, cwd="", env={}, mounts=())
    process = await asyncio.create_subprocess_exec(
        *supervisor_command("try", str(room.root)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await process.communicate()
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return process.returncode == 0
