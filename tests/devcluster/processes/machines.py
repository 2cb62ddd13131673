"""Isolations of this machine for tests, each in a folder of its own, and commands in them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from devcluster.processes.cluster_dir import ClusterDir, tagged_processes
from devcluster.processes.isolation import OPENERS, ShimIsolation, build_library
from devcluster.processes.pod_sandbox import (
    ContainerConfig,
    ContainerDir,
    Isolation,
    Launch,
)

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PYTHON = str(Path(sys.executable).resolve())
"""Not that of the environment, which may lie in a folder that containers have for themselves."""

NOBODY = 65534
"""Another user of this machine."""


async def _beside(host: ClusterDir) -> Isolation:
    return ShimIsolation(host, await build_library(), namespaces=False)


WAYS = {
    **OPENERS,
    "shim beside": _beside,
}
"""Modes, and the shim without files apart as where users may make no namespaces."""


needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="NOT TESTED: the shim needs a C compiler"
)
needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None,
    reason="NOT TESTED: namespaces need root and the program `ip` (iproute2)",
)


@asynccontextmanager
async def opened(mode: str) -> AsyncIterator[Isolation]:
    """An isolation, closed at the end; nothing of it may be left then."""
    with tempfile.TemporaryDirectory(prefix="manta-test-", dir="/tmp") as folder:
        host = ClusterDir(Path(folder))
        isolation = await WAYS[mode](host)
        try:
            yield isolation
        finally:
            try:
                await isolation.aclose()
            finally:
                await asyncio.to_thread(host.close)
            assert contents(folder) == []
            assert not exists(host.memory)


def contents(folder: str) -> list[Path]:
    return list(Path(folder).iterdir())


def exists(path: str | Path) -> bool:
    return os.path.lexists(path)


async def ended(container_dir: ContainerDir) -> None:
    """Wait until no process of a container is left."""
    async with asyncio.timeout(60):
        while list(tagged_processes(f"{container_dir.root}/")):  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(0.01)


async def pod(isolation: Isolation, name: str = "pod", **more):
    usual = {"namespace": "default", "name": name, "hostname": name}
    return await isolation.open_pod(f"uid-{name}", **usual | more)


async def container_dir(
    sandbox, *, cwd: str = "", env: dict[str, str] | None = None, mounts=()
) -> ContainerDir:
    return sandbox.create_container_dir(ContainerConfig(cwd, {"PATH": PATH, **(env or {})}, mounts))


async def started(launch: Launch, **more) -> asyncio.subprocess.Process:
    usual = {
        "stdin": asyncio.subprocess.DEVNULL,
        "stdout": asyncio.subprocess.PIPE,
        "stderr": asyncio.subprocess.STDOUT,
    }
    return await asyncio.create_subprocess_exec(
        *launch.argv, env=launch.env, cwd=launch.cwd, **usual | more
    )


async def status_of(process: asyncio.subprocess.Process) -> int:
    await process.communicate()
    return process.returncode


async def outcome(launch: Launch) -> tuple[int, str]:
    process = await started(launch)
    text, _ = await process.communicate()
    return process.returncode, text.decode()


async def run(sandbox, argv: Sequence[str], **more) -> tuple[int, str]:
    """Exit status and output of a command in a container directory of its own."""
    return await outcome((await container_dir(sandbox, **more)).command(argv))


async def said(process: asyncio.subprocess.Process, line: str) -> None:
    async with asyncio.timeout(60):
        while (await process.stdout.readline()).decode().strip() != line:
            assert not process.stdout.at_eof()


def connecting(where: tuple[str, int]) -> subprocess.Popen[bytes]:
    """A process of another user; its status is 1 if it cannot connect."""
    code = f"""if True:
        import os, socket
        os.setuid({NOBODY})
        other = socket.socket()
        other.settimeout(50)
        other.connect({where!r})
        other.recv(1)
    """
    return subprocess.Popen([PYTHON, "-c", code], stderr=subprocess.DEVNULL)


async def connects(ip: str, port: int) -> bool:
    return not await asyncio.to_thread(connecting((ip, port)).wait, 60)
