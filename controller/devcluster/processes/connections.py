"""`kubectl exec` and `cp`: another command in a running container."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from typing import Any

import msgspec

from controller.devcluster.apiserver.sessions import (
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    Channels,
    ConnectionRequest,
    Session,
)
from controller.devcluster.apiserver.status import bad_request
from controller.devcluster.logs import chosen_container
from controller.devcluster.processes.container_process import ContainerProcess
from controller.devcluster.processes.kubelet import ProcessKubelet

_CHUNK = 64 * 1024
_SUCCESS: dict[str, Any] = {"metadata": {}, "status": "Success"}


class ProcessConnections:
    """Prepares sessions: `server.hooks.pod_connection`."""

    def __init__(self, kubelet: ProcessKubelet) -> None:
        self._kubelet = kubelet

    def __call__(self, request: ConnectionRequest) -> Session:
        """Prepare a session.

        Raises:
            ApiError: 400, there is no such container, or it does not run.
        """
        meta = request.pod["metadata"]
        name = _container(request)
        running = self._kubelet.running(f"{meta['namespace']}/{meta['name']}", name)
        if running is None:
            raise bad_request(f"container {name} of pod {meta['name']} is not running")
        if not request.command:
            raise bad_request("you must specify at least 1 command for the container")
        return _Execution(running, request)


def _container(request: ConnectionRequest) -> str:
    """Return the named container, the default one, or the first."""
    asked = request.query.get("container", "")
    annotations = request.pod["metadata"].get("annotations", {})
    asked = asked or annotations.get("kubectl.kubernetes.io/default-container", "")
    return chosen_container(request.pod, asked or request.pod["spec"]["containers"][0]["name"])


class _Execution:
    """One command in a running container."""

    def __init__(self, process: ContainerProcess, request: ConnectionRequest) -> None:
        self._process = process
        self._request = request
        self._terminal = -1

    async def __call__(self, channels: Channels) -> None:
        """Run the command until it ends; it is killed when the client has gone."""
        try:
            started = await (
                self._start_on_terminal() if self._request.wants("tty") else self._start()
            )
        except OSError as error:
            await channels.send(ERROR, _failure(f"cannot start the command: {error}"))
            return
        input_ = asyncio.create_task(self._feed(channels, started))
        output = asyncio.create_task(self._show_all(channels, started))
        try:
            await asyncio.wait({input_, output}, return_when=asyncio.FIRST_COMPLETED)
            if not input_.done():  # the client is still there
                await output
                await channels.send(ERROR, _result(await started.wait()))
        finally:
            for task in (input_, output):
                task.cancel()
            await asyncio.wait({input_, output})
            if started.returncode is None:
                await self._process.kill_other(started)
            self._close_terminal()

    async def _start(self) -> Process:
        return await self._process.start_other(
            self._request.command,
            stdin=PIPE if self._request.wants("stdin") else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )

    async def _start_on_terminal(self) -> Process:
        self._terminal, theirs = os.openpty()
        try:
            return await self._process.start_other(
                self._request.command, stdin=theirs, stdout=theirs, stderr=theirs
            )
        finally:
            os.close(theirs)

    def _close_terminal(self) -> None:
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1

    async def _show_all(self, channels: Channels, started: Process) -> None:
        if self._terminal >= 0:
            await self._show_terminal(channels)
            return
        assert started.stdout is not None
        assert started.stderr is not None
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(channels, STDOUT, started.stdout))
            group.create_task(_pass_on(channels, STDERR, started.stderr))

    async def _show_terminal(self, channels: Channels) -> None:
        """Pass on the terminal's output until no process has it open."""
        reader = asyncio.StreamReader()
        copy = os.fdopen(os.dup(self._terminal), "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), copy
        )
        try:
            with suppress(OSError):  # EIO: the other end is closed
                await _pass_on(channels, STDOUT, reader)
        finally:
            transport.close()

    async def _feed(self, channels: Channels, started: Process) -> None:
        """Pass on what the client sends, until it has gone."""
        while (message := await channels.receive()) is not None:
            channel, data = message
            if channel == RESIZE and self._terminal >= 0:
                self._resize(data)
            elif channel == STDIN and self._terminal >= 0:
                await asyncio.to_thread(os.write, self._terminal, data or b"\x04")
            elif channel == STDIN and started.stdin is not None:
                with suppress(ConnectionError):  # it does not read any more
                    if data:
                        started.stdin.write(data)
                        await started.stdin.drain()
                    else:
                        started.stdin.close()

    def _resize(self, data: bytes) -> None:
        with suppress(msgspec.MsgspecError, struct.error):  # what is no size is ignored
            size = msgspec.json.decode(data, type=dict[str, int])
            packed = struct.pack("HHHH", size.get("Height", 0), size.get("Width", 0), 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, packed)


async def _pass_on(channels: Channels, channel: int, reader: asyncio.StreamReader) -> None:
    while data := await reader.read(_CHUNK):
        await channels.send(channel, data)


def _result(code: int) -> bytes:
    if code == 0:
        return msgspec.json.encode(_SUCCESS)
    code = 128 - code if code < 0 else code
    return _failure(
        f"command terminated with non-zero exit code: exit status {code}",
        reason="NonZeroExitCode",
        details={"causes": [{"reason": "ExitCode", "message": str(code)}]},
    )


def _failure(message: str, **more: Any) -> bytes:
    status: dict[str, Any] = {"metadata": {}, "status": "Failure", "message": message}
    return msgspec.json.encode(status | more)
