"""Modes of isolation: the best that this machine permits, and "shim", which needs no privileges.

Each mode is tested with two pods. With "shim" each pod has its own loopback address: a library that
is loaded into every process of a pod, compiled at first use, keeps its listeners and connections at
it. Containers have their own files and processes where this machine lets users create namespaces;
elsewhere they share the user's, and paths of volumes are replaced in commands and variables.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

from msgspec import Struct

from devcluster.processes.cluster_dir import (
    ClusterDir,
    Leftover,
    clean_up,
    clusters_dir,
    supervisor_command,
)
from devcluster.processes.namespaces import open_namespaces
from devcluster.processes.pod_sandbox import (
    ContainerConfig,
    Isolation,
    Launch,
    Mode,
    PodSandbox,
)

_SOURCE = Path(__file__).with_name("podnet.c")
_COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = ("-shared", "-fPIC", "-O2")


def cache_folder() -> Path:
    """Return the cache directory of compiled libraries."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "manta"


async def build_library(cache: Path | None = None) -> Path:
    """Return the path of the library, which is compiled if it does not exist.

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
        """Use `open_shim`."""
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

    async def _connect(self, sandbox: PodSandbox, name: str) -> None:
        del name
        shutil.copy(self._given, sandbox.network)
        sandbox.namespaced = self._namespaces
        if sandbox.host_network:
            sandbox.ip = self.host_ip
            return
        sandbox.ip, self._next = str(IPv4Address(self._next)), self._next + 1
        seen = INSIDE if self._namespaces else str(sandbox.network)
        sandbox.env = self._variables(seen, sandbox.ip, sandbox.hostname)

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
    sandbox = PodSandbox("", "", "trial", folder, cluster_dir.lifeline)
    container_dir = sandbox.create_container_dir(ContainerConfig("", {}))
    process = await asyncio.create_subprocess_exec(
        *supervisor_command("try", str(container_dir.root)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await process.communicate()
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return process.returncode == 0


_PORT = 52399  # not assigned to any known program
_PATIENCE = 60.0  # seconds: a busy machine is slow to start programs
_ANSWER = f"""
import socket
with socket.create_server(("", {_PORT})) as server:
    while True:
        server.accept()[0].close()
"""
_ASK = f"""
import socket, sys, time
for attempt in range(100):
    try:
        socket.create_connection((sys.argv[1], {_PORT}), 2).close()
    except ConnectionRefusedError:
        time.sleep(0.05)
    else:
        break
else:
    sys.exit("no answer")
"""


async def self_test(isolation: Isolation, python: str) -> None:
    """Run a server in one pod and a client in another, and connect to it from this machine too.

    Raises:
        OSError: the test failed; the message says why.
    """
    sandboxes = [
        await isolation.open_pod(f"trial-{name}", namespace="trial", name=name, hostname=name)
        for name in ("server", "client")
    ]
    try:
        async with asyncio.timeout(_PATIENCE):
            await _connect_pods(sandboxes[0], sandboxes[1], python)
    except TimeoutError:
        raise OSError(
            "pods cannot reach one another: a firewall of this machine may drop what passes its "
            "bridges"
        ) from None
    finally:
        for sandbox in sandboxes:
            await isolation.close_pod(sandbox)


async def _connect_pods(server: PodSandbox, client: PodSandbox, python: str) -> None:
    # on PATH, so that it is seen also where it lies in a folder that containers have for themselves
    config = ContainerConfig("", {"PATH": f"{Path(python).parent}:/usr/bin:/bin"})
    answering = server.create_container_dir(config)
    asking = client.create_container_dir(config)
    listener = await _spawn(answering.command([python, "-I", "-S", "-c", _ANSWER]))
    try:
        asker = await _spawn(asking.command([python, "-I", "-S", "-c", _ASK, server.ip]))
        _, errors = await asker.communicate()
        if asker.returncode:
            why = errors.decode(errors="replace").strip().rpartition("\n")[2]
            raise OSError(f"a pod cannot reach another: {answering.start_error() or why}")
        _, writer = await asyncio.open_connection(server.ip, _PORT)
        writer.close()
    finally:
        with contextlib.suppress(ProcessLookupError):
            listener.kill()
        await listener.communicate()


async def _spawn(launch: Launch) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *launch.argv,
        env=launch.env,
        cwd=launch.cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )


IsolationOption = Literal["auto", "namespaces", "shim"]
"""An isolation mode, or `auto` for the best that this machine permits."""


OPENERS: dict[Mode, Callable[[ClusterDir], Awaitable[Isolation]]] = {
    "namespaces": open_namespaces,
    "shim": open_shim,
}
"""Isolation modes, the best first."""


class IsolationUnavailable(Exception):  # noqa: N818 - it is a state of this machine
    """This machine does not permit the requested mode; the message says why."""


class SelectedIsolation(Struct, frozen=True):
    """An isolation, and the machine's folder that it uses.

    Attributes:
        isolation: ready; close it at the end, which removes the folder too.
    """

    isolation: Isolation
    cluster_dir: ClusterDir
    refused: dict[Mode, str]
    leftovers: list[Leftover]

    def sentences(self) -> list[str]:
        """Return sentences to print at start."""
        lines = [
            f"removed what a cluster of process {leftover.pid} had left behind"
            for leftover in self.leftovers
        ]
        lines += [
            f"isolation {mode!r} is not possible: {why}" for mode, why in self.refused.items()
        ]
        return [*lines, f"isolation {self.isolation.mode!r}: {self.isolation.description}"]


async def select_isolation(
    wanted: IsolationOption = "auto", *, base: Path | None = None
) -> SelectedIsolation:
    """Clean up the remains of dead clusters, and open the requested isolation.

    Raises:
        IsolationUnavailable: the mode is not possible on this machine.
        OSError: no folder can be made.
    """
    folder = base or clusters_dir()
    leftovers = await asyncio.to_thread(clean_up, folder)
    modes: list[Mode] = list(OPENERS) if wanted == "auto" else [wanted]
    refused: dict[Mode, str] = {}
    for mode in modes:
        cluster_dir = ClusterDir(folder)
        try:
            isolation = await _open_and_test(mode, cluster_dir)
        except OSError as failure:
            refused[mode] = str(failure)
            await asyncio.to_thread(cluster_dir.close)
        else:
            return SelectedIsolation(isolation, cluster_dir, refused, leftovers)
    raise IsolationUnavailable("; ".join(f"{mode}: {why}" for mode, why in refused.items()))


async def _open_and_test(mode: Mode, cluster_dir: ClusterDir) -> Isolation:
    isolation = await OPENERS[mode](cluster_dir)
    try:
        await self_test(isolation, sys.executable)
    except BaseException:
        await isolation.aclose()
        raise
    return isolation
