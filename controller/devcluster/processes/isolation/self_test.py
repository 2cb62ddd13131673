"""Self-test of an isolation: one pod answers another pod and this machine."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from controller.devcluster.processes.machine.pod_sandbox import ContainerConfig

if TYPE_CHECKING:
    from controller.devcluster.processes.machine.pod_sandbox import Isolation, Launch, PodSandbox

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
