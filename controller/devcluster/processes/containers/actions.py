"""Actions of probes and hooks: a command, a request, a connection, a pause."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp

from controller.devcluster.processes.containers.container_process import ActionResult

if TYPE_CHECKING:
    from controller.devcluster.processes.containers.container_process import ContainerProcess
    from controller.devcluster.processes.specification.specification import (
        Action,
        ContainerSpecification,
        HttpAction,
        TcpAction,
    )

_LONGEST_BODY = 10 * 1024


async def run_action(
    action: Action,
    container: ContainerSpecification,
    run: ContainerProcess,
    pod_ip: str,
    seconds: float | None,
) -> ActionResult:
    """Run the action of a probe or hook, for at most `seconds` (None for no limit)."""
    if action.exec:
        return await run.exec(action.exec.command, seconds)
    if action.sleep:
        await asyncio.sleep(action.sleep.seconds)
        return ActionResult(is_good=True, text="")
    try:
        async with asyncio.timeout(seconds):
            if action.http_get:
                return await _get(action.http_get, container, pod_ip)
            if action.tcp_socket:
                return await _connect(action.tcp_socket, container, pod_ip)
    except TimeoutError:
        return ActionResult(is_good=False, text=f"no answer within {seconds:g}s")
    what = "grpc" if action.grpc else "this kind of action"
    return ActionResult(
        is_good=False, text=f"{what} is not supported here; use exec, httpGet or tcpSocket"
    )


async def _get(action: HttpAction, container: ContainerSpecification, pod_ip: str) -> ActionResult:
    port = container.port(action.port)
    if port is None:
        return ActionResult(is_good=False, text=f"no port is named {action.port!r}")
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    url = f"{action.scheme.lower()}://{action.host or pod_ip}:{port}{path}"
    headers = {"User-Agent": "kube-probe/manta", "Accept": "*/*"}
    headers |= {header.name: header.value for header in action.http_headers}
    connector = aiohttp.TCPConnector(ssl=False, force_close=True)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, trust_env=False) as session,
            session.get(url, headers=headers, allow_redirects=False) as answer,
        ):
            await answer.content.read(_LONGEST_BODY)
            is_good = 200 <= answer.status < 400
            text = f"HTTP probe failed with statuscode: {answer.status}"
            return ActionResult(is_good, "" if is_good else text)
    except aiohttp.ClientConnectorError as error:
        return ActionResult(is_good=False, text=f'Get "{url}": {error.strerror or error}')
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return ActionResult(is_good=False, text=f'Get "{url}": {error or type(error).__name__}')


async def _connect(
    action: TcpAction, container: ContainerSpecification, pod_ip: str
) -> ActionResult:
    port = container.port(action.port)
    if port is None:
        return ActionResult(is_good=False, text=f"no port is named {action.port!r}")
    host = action.host or pod_ip
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        return ActionResult(
            is_good=False, text=f"dial tcp {host}:{port}: {error.strerror or error}"
        )
    writer.close()
    return ActionResult(is_good=True, text="")
