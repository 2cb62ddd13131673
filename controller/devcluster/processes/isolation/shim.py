"""Modes "shim" and "shared" of isolation, which need no privileges.

With "shim" each pod has its own loopback address: a library that is loaded into every process of a
pod, compiled at first use, keeps its listeners and connections at it. Containers have their own
files and processes where this machine lets users create namespaces; elsewhere they share the
user's, and paths of volumes are replaced in commands and variables.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import secrets
import shutil
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

from controller.devcluster.processes.cluster_dir import kill_tagged, supervisor_command
from controller.devcluster.processes.isolation.sandbox import (
    RESOLV,
    ProcessIsolation,
    ProcessSandbox,
    SandboxConfig,
    create_container_dir,
)
from controller.devcluster.processes.network.services import DOMAIN
from controller.devcluster.processes.pod_sandbox import ContainerConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from controller.devcluster.processes.cluster_dir import ClusterDir
    from controller.devcluster.processes.isolation.sandbox import ProcessContainerDir
    from controller.devcluster.processes.pod_sandbox import Mode


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


@dataclass(slots=True)
class ShimSandbox(ProcessSandbox):
    """Implements `PodSandbox`.

    Attributes:
        translate: replaces names in commands and variables where pods share this machine's files.
    """

    translate: Callable[[str], str]

    async def create_container_dir(
        self, container: str, config: ContainerConfig
    ) -> ProcessContainerDir:
        """Return a new directory for the next run of `container`."""
        if self.setting.namespaced:
            return await ProcessSandbox.create_container_dir(self, container, config)
        number = next(self.numbers)
        paths = {mount.target.rstrip("/"): str(mount.source) for mount in config.mounts}

        def here(text: str) -> str:
            return self.translate(_substituted(text, paths))

        temporary = self.setting.root / str(number) / "t"
        variables = {name: here(value) for name, value in config.env.items()}
        container_dir = create_container_dir(
            self.setting,
            number,
            ContainerConfig(
                _folder(here(config.cwd)) or str(temporary),
                {**variables, "TMPDIR": str(temporary), "RAY_TMPDIR": str(temporary)},
            ),
        )
        temporary.mkdir()
        container_dir.translate = here
        return container_dir


class ShimIsolation(ProcessIsolation[ShimSandbox]):
    """Implements `Isolation`."""

    mode: Mode = "shim"

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
        self._labels = itertools.count()
        # Start at a random address: the kernel keeps ports of closed connections for a minute.
        first = 1 + secrets.randbelow(200)
        self._next = int(IPv4Address(f"127.{_PODS + cluster_dir.number}.{first}.1"))

    @property
    def description(self) -> str:
        """Description for users."""
        return (
            f"each pod has an address 127.{_PODS + self._cluster_dir.number}.x.y through a library "
            "that is preloaded into its processes; statically linked programs are not isolated; "
            "other users of this machine reach pods" + self._files
        )

    @property
    def _files(self) -> str:
        if self._namespaces:
            return ""
        return (
            "; pods share this machine's files, as users may not create namespaces here: volumes "
            "are found only through paths in commands and variables"
        )

    @property
    def host_ip(self) -> str:
        """A loopback address outside the pods' range."""
        return f"127.{_PODS + self._cluster_dir.number}.0.1"

    async def open_pod(
        self, uid: str, *, namespace: str, name: str, hostname: str, host_network: bool = False
    ) -> ShimSandbox:
        """Create the sandbox of a pod, or return the one that its uid has.

        Raises:
            OSError: it cannot be made.
        """
        del name
        if uid in self._sandboxes:
            return self._sandboxes[uid]
        root = self._cluster_dir.root / f"p{next(self._labels)}"
        network = root / "network"
        network.mkdir(parents=True)
        shutil.copy(self._given, network)
        (network / "resolv.conf").write_text(RESOLV)
        ip = self.host_ip
        if not host_network:
            ip, self._next = str(IPv4Address(self._next)), self._next + 1
        seen = INSIDE if self._namespaces else str(network)
        setting = SandboxConfig(
            root,
            self._cluster_dir.lifeline,
            network=network,
            namespaced=self._namespaces,
            hostname=hostname,
            env={} if host_network else self._variables(seen, ip, hostname),
        )
        sandbox = ShimSandbox(
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
        sandbox.write_hosts_file(self._names)
        self._sandboxes[uid] = sandbox
        return sandbox

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

    def translate(self, text: str) -> str:
        """Translate a word of a command or variable where pods share this machine's files."""
        return text

    async def _end(self, sandbox: ShimSandbox) -> None:
        await asyncio.to_thread(kill_tagged, f"{sandbox.root}/")
        await asyncio.to_thread(shutil.rmtree, sandbox.root, ignore_errors=True)

    async def hold(self, addresses: AbstractSet[str]) -> dict[str, str]:
        """Map service addresses to loopback, where every address can be bound."""
        return {
            address: f"127.{_SERVICES + self._cluster_dir.number}.{address.split('.', 2)[2]}"
            for address in addresses
            if address.startswith(f"{_CLUSTER_SERVICES}.")
        }


def _folder(path: str) -> str:
    """Return the path if it is a directory of this machine, else empty."""
    return path if path and Path(path).is_dir() else ""


def _substituted(text: str, paths: Mapping[str, str]) -> str:
    """Return `text` with the paths of volumes replaced by folders of this machine."""
    for target in sorted(paths, key=len, reverse=True):
        if target:
            text = text.replace(target, paths[target])
    return text


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
    setting = SandboxConfig(
        folder, cluster_dir.lifeline, network=folder / "network", hostname="trial"
    )
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


# Mode "shared": all pods share this machine's network. The fallback for all machines.
#
# Pods have loopback addresses, but a listener on all addresses listens on those of all pods. Ray's
# nodes get their own ports through a hook of `ray start`.


_HOOK = Path(__file__).with_name("manta_ray_start.py")


class SharedIsolation(ShimIsolation):
    """Implements `Isolation`."""

    mode: Mode = "shared"

    def __init__(self, cluster_dir: ClusterDir, *, namespaces: bool) -> None:
        """Use `open_shared`."""
        super().__init__(cluster_dir, _HOOK, namespaces=namespaces)

    @property
    def description(self) -> str:
        """Description for users."""
        return (
            "all pods share this machine's network, so run one Ray cluster at a time; a worker's "
            "metrics and agent ports are not those of its pod, and other users of this machine "
            "reach pods" + self._files
        )

    def _variables(self, seen: str, ip: str, hostname: str) -> dict[str, str]:
        del hostname
        numbers = {
            sandbox.setting.env.get("MANTA_POD_NUMBER") for sandbox in self._sandboxes.values()
        }
        number = next(one for one in range(1, 4096) if str(one) not in numbers)
        return {
            "RAY_START_HOOK": f"{_HOOK.stem}.hook",
            "PYTHONPATH": seen,
            "MANTA_POD_IP": ip,
            "MANTA_POD_NUMBER": str(number),
        }

    def translate(self, text: str) -> str:
        """Return `text` with names of services replaced by addresses.

        Raises:
            OSError: a service has no ready pod yet.
        """
        for (namespace, service), addresses in self._names.items():
            if addresses:
                text = text.replace(f"{service}.{namespace}.svc.{DOMAIN}", addresses[0])
        if f".svc.{DOMAIN}" in text:
            name = text.partition(f".svc.{DOMAIN}")[0].split()[-1]
            raise OSError(f"no pod is ready behind the service in {name}.svc.{DOMAIN}")
        return text


async def open_shared(cluster_dir: ClusterDir) -> SharedIsolation:
    """Open the isolation, which is always possible."""
    return SharedIsolation(cluster_dir, namespaces=await namespaces_permitted(cluster_dir))
