"""Mode "shim" of isolation, which needs no privileges.

Each pod has its own loopback address: a library that is loaded into every process of a pod,
compiled at first use, keeps its listeners and connections at it. Containers have their own
files and processes where this machine lets users create namespaces; elsewhere they share the
user's, and paths of volumes are replaced in commands and variables.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shutil
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

from controller.devcluster.processes.cluster_dir import supervisor_command
from controller.devcluster.processes.pod_sandbox import (
    ContainerConfig,
    Isolation,
    SandboxConfig,
    create_container_dir,
)

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from controller.devcluster.processes.cluster_dir import ClusterDir


_SOURCE = Path(__file__).with_name("podnet.c")
_COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = ("-shared", "-fPIC", "-O2")


def cache_folder() -> Path:
    """Return the cache directory of compiled libraries."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "manta"


async def build_library(cache: Path | None = None) -> Path:
    """Return the path of the library, which is compiled if it does not exist.

    Args:
        cache: folder; by default `cache_folder`.

    Raises:
        OSError: there is no C compiler, or it fails; the message says so.
    """
    source = _SOURCE.read_bytes()
    digest = hashlib.sha256(source + os.uname().machine.encode()).hexdigest()[:16]
    compiled = (cache or cache_folder()) / f"podnet-{digest}.so"
    if compiled.exists():
        return compiled
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise OSError("there is no C compiler (cc) on this machine: install one, gcc or clang")
    compiled.parent.mkdir(parents=True, exist_ok=True)
    new = compiled.with_suffix(f".{os.getpid()}")
    process = await asyncio.create_subprocess_exec(
        compiler,
        *_OPTIONS,
        "-o",
        str(new),
        str(_SOURCE),
        "-ldl",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    if process.returncode:
        raise OSError(f"{compiler} cannot compile podnet.c: {errors.decode(errors='replace')}")
    new.replace(compiled)
    return compiled


_PODS, _SERVICES = 64, 96
"""Second byte of the first cluster's addresses, 127.64.x.y and 127.96.x.y."""
_CLUSTER_SERVICES = "10.96"
INSIDE = "/.network"


class ShimIsolation(Isolation):
    """Pods with loopback addresses of their own."""

    mode = "shim"

    def __init__(self, cluster_dir: ClusterDir, given: Path, *, namespaces: bool) -> None:
        """Use `open_shim`.

        Args:
            cluster_dir: folder of the cluster.
            given: the library, which is copied into every pod.
            namespaces: whether containers have their own files.
        """
        super().__init__(cluster_dir)
        self._given = given
        self._namespaces = namespaces
        # Start at a random address: the kernel keeps ports of closed connections for a minute.
        first = 1 + secrets.randbelow(200)
        self._next = int(IPv4Address(f"127.{_PODS + cluster_dir.number}.{first}.1"))

    @property
    def description(self) -> str:
        """Description for users."""
        return (
            f"each pod has an address 127.{_PODS + self._cluster_dir.number}.x.y through a library "
            "that is preloaded into its processes; statically linked programs are not isolated; "
            "other users of this machine reach pods"
            + (
                ""
                if self._namespaces
                else "; pods share this machine's files, as users may not create namespaces here: "
                "volumes are found only through paths in commands and variables"
            )
        )

    @property
    def host_ip(self) -> str:
        """A loopback address outside the pods' range."""
        return f"127.{_PODS + self._cluster_dir.number}.0.1"

    async def _connect(
        self, uid: str, root: Path, name: str, hostname: str, *, host_network: bool
    ) -> tuple[str, SandboxConfig]:
        del uid, name
        shutil.copy(self._given, root / "network")
        ip = self.host_ip
        if not host_network:
            ip, self._next = str(IPv4Address(self._next)), self._next + 1
        seen = INSIDE if self._namespaces else str(root / "network")
        return ip, SandboxConfig(
            root,
            self._cluster_dir.lifeline,
            namespaced=self._namespaces,
            hostname=hostname,
            env={} if host_network else self._variables(seen, ip, hostname),
        )

    def _variables(self, seen: str, ip: str, hostname: str) -> dict[str, str]:
        """Return variables of every process of a pod; the pod's files are at path `seen`."""
        return {
            "LD_PRELOAD": f"{seen}/{self._given.name}",
            "RAY_LD_PRELOAD_ON_WORKERS": "1",
            "MANTA_POD_IP": ip,
            "MANTA_POD_NAME": hostname,
            "MANTA_HOSTS": f"{seen}/hosts",
            "MANTA_SERVICES": f"{_CLUSTER_SERVICES} 127.{_SERVICES + self._cluster_dir.number}",
        }

    async def hold(self, addresses: AbstractSet[str]) -> dict[str, str]:
        """Map service addresses to loopback, where every address can be bound."""
        return {
            address: f"127.{_SERVICES + self._cluster_dir.number}.{address.split('.', 2)[2]}"
            for address in addresses
            if address.startswith(f"{_CLUSTER_SERVICES}.")
        }


async def open_shim(cluster_dir: ClusterDir) -> ShimIsolation:
    """Open the isolation, with separate files if users may create namespaces here.

    Raises:
        OSError: there is no library; the message says why.
    """
    return ShimIsolation(
        cluster_dir, await build_library(), namespaces=await namespaces_permitted(cluster_dir)
    )


async def namespaces_permitted(cluster_dir: ClusterDir) -> bool:
    """Test whether this user may create process and mount namespaces on this machine."""
    folder = cluster_dir.root / "trial"
    folder.mkdir()
    setting = SandboxConfig(folder, cluster_dir.lifeline, hostname="trial")
    container_dir = create_container_dir(setting, 0, ContainerConfig("", {}))
    process = await asyncio.create_subprocess_exec(
        *supervisor_command("try", str(container_dir.root)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await process.communicate()
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return process.returncode == 0
