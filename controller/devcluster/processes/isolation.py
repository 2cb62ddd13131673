"""Selects the best isolation mode that this machine permits, by testing each with two pods."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from controller.devcluster.processes.cluster_dir import ClusterDir, clean_up, clusters_dir
from controller.devcluster.processes.namespaces import open_namespaces
from controller.devcluster.processes.pod_sandbox import ContainerConfig
from controller.devcluster.processes.shim import open_shim

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controller.devcluster.processes.cluster_dir import Leftover
    from controller.devcluster.processes.pod_sandbox import Isolation, Launch, Mode, PodSandbox


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

    Args:
        isolation: open, without pods.
        python: path of an interpreter that pods see.

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
    answering = await server.create_container_dir("server", config)
    asking = await client.create_container_dir("client", config)
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


@dataclass(frozen=True, slots=True)
class SelectedIsolation:
    """An isolation, and the machine's folder that it uses.

    Attributes:
        isolation: ready; close it at the end, which removes the folder too.
        cluster_dir: the folder.
        refused: reasons why better modes were rejected.
        leftovers: remains of dead clusters, which were removed.
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

    Args:
        wanted: the mode.
        base: directory of the clusters' directories; the user's own by default.

    Raises:
        NoIsolation: the mode is not possible on this machine.
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
