"""Connections to pods: `kubectl exec` and `cp`, and the proxies of the API server."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import struct
import termios
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from devcluster.apiserver.messages import (
    ApiRequest,
    ApiResponse,
    ResourcePath,
    proxy_target,
)
from devcluster.apiserver.sessions import (
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    Channels,
    ConnectionRequest,
    Session,
)
from devcluster.apiserver.status import ApiError, bad_request, unavailable
from devcluster.gateway_proxy import HOP_BY_HOP, passing_session
from devcluster.logs import chosen_container
from devcluster.processes.container_process import ContainerProcess
from devcluster.processes.kubelet import ProcessKubelet
from devcluster.processes.network import Backend, ServiceNetwork

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


# Proxies to pods, and to ready pods behind services. As upstream, response bodies are streamed, the
# client's credentials for the API server are not forwarded, and redirects are not followed.
# Upgrades (web sockets) are refused.


_MOST = 256
"""Maximum concurrent requests; further ones wait."""
_FIRST_BYTE = 60.0  # seconds
_NOT_PASSED_ON = HOP_BY_HOP | {"authorization", "content-length", "host"}


class Proxies:
    """The hooks `pod_proxy` and `service_proxy` of the API server."""

    def __init__(self, network: ServiceNetwork, rng: random.Random) -> None:
        self._network = network
        self._rng = rng
        self._session: aiohttp.ClientSession | None = None

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def service_proxy(self, request: ApiRequest, where: ResourcePath) -> ApiResponse:
        """Forward a request to a ready pod behind a service."""
        scheme, name, port = proxy_target(where.name)
        service = self._network.service(where.namespace, name)
        if service is None:
            raise unavailable(f'no endpoints available for service "{name}"')
        ports = {str(one.port): one.name for one in service.spec.ports}
        if port.isdigit() and port not in ports:
            raise unavailable(f'no service port {port} found for service "{name}"')
        behind = self._network.backends(service, ports.get(port, port))
        if not behind:
            raise unavailable(f'no endpoints available for service "{name}"')
        return await self._pass_on(request, where, scheme, self._rng.choice(behind))

    async def pod_proxy(self, request: ApiRequest, where: ResourcePath) -> ApiResponse:
        """Forward a request to a pod."""
        scheme, name, port = proxy_target(where.name)
        pod = self._network.pod(where.namespace, name)
        if pod is None or not pod.status.pod_ip:
            raise unavailable(f'pod "{name}" has no address yet')
        first = next((one.container_port for c in pod.spec.containers for one in c.ports), 80)
        number = int(port) if port.isdigit() else first
        return await self._pass_on(request, where, scheme, Backend(pod.status.pod_ip, number))

    async def _pass_on(
        self, request: ApiRequest, where: ResourcePath, scheme: str, to: Backend
    ) -> ApiResponse:
        if "upgrade" in request.headers.get("connection", "").lower():
            raise ApiError(501, "NotImplemented", "upgraded connections are not passed on here")
        try:
            response = await self._send(request, where, scheme, to)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            raise unavailable(f"error trying to reach service: {why}") from error
        headers = _passed_on({name.lower(): each for name, each in response.headers.items()})
        if (length := response.headers.get("content-length")) is not None:
            headers["content-length"] = length
        return ApiResponse(response.status, _body(response), headers)

    async def _send(
        self, request: ApiRequest, where: ResourcePath, scheme: str, to: Backend
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = passing_session(limit=_MOST)
        path = quote(where.rest or "/", safe="/:@!$&'()*+,;=~")
        url = URL(f"{scheme}://{to.ip}:{to.port}{path}", encoded=True).with_query(
            dict(request.query)
        )
        async with asyncio.timeout(_FIRST_BYTE):
            return await self._session.request(
                request.method,
                url,
                headers=_passed_on(request.headers),
                data=request.body,
                allow_redirects=False,
                ssl=False,
            )


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in _NOT_PASSED_ON}


async def _body(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    finally:
        response.close()
