"""The probes and hooks of one run of a container: their actions, thresholds and results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

import aiohttp
from msgspec import Struct, structs
from msgspec.structs import replace

from controller.devcluster.processes.container_process import ActionResult, ContainerProcess
from controller.devcluster.processes.environment import expand
from controller.devcluster.processes.specification import (
    Action,
    ContainerSpecification,
    HttpAction,
    ProbeSpecification,
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
        return ActionResult.failed(f"no answer within {seconds:g}s")
    what = "grpc" if action.grpc else "this kind of action"
    return ActionResult.failed(f"{what} is not supported here; use exec, httpGet or tcpSocket")


async def _get(action: HttpAction, container: ContainerSpecification, pod_ip: str) -> ActionResult:
    port = container.port(action.port)
    if port is None:
        return ActionResult.failed(f"no port is named {action.port!r}")
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
        return ActionResult.failed(f'Get "{url}": {error.strerror or error}')
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return ActionResult.failed(f'Get "{url}": {error or type(error).__name__}')


async def _connect(
    action: TcpAction, container: ContainerSpecification, pod_ip: str
) -> ActionResult:
    port = container.port(action.port)
    if port is None:
        return ActionResult.failed(f"no port is named {action.port!r}")
    host = action.host or pod_ip
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        return ActionResult.failed(f"dial tcp {host}:{port}: {error.strerror or error}")
    writer.close()
    return ActionResult(is_good=True, text="")


class ProbeThreshold(Struct, frozen=True):
    """Results of one probe so far.

    Attributes:
        verdict: the current state, None while unknown.
        run: number of consecutive results equal to the last.
    """

    successes: int
    failures: int
    verdict: bool | None = None
    last: bool | None = None
    run: int = 0

    def after(self, result: bool) -> ProbeThreshold:
        """Return the state after one more result."""
        run = self.run + 1 if result == self.last else 1
        decided = run >= (self.successes if result else self.failures)
        return replace(
            self, verdict=result if decided else self.verdict, last=result, run=min(run, 1_000_000)
        )


class ProbeListener(Protocol):
    """Receives whether a container has started and whether it is ready."""

    def __call__(self, *, started: bool, ready: bool) -> None:
        """Handle a result of the probes."""
        ...


class FailedProbe(Struct, frozen=True):
    """A failed `startup` or `liveness` probe, for which the container must be stopped."""

    name: str
    probe: ProbeSpecification


class ContainerProbes:
    """Runs the probes of one container process.

    Args:
        pace: factor of initial delays and periods.
    """

    def __init__(
        self,
        container: ContainerSpecification,
        run: ContainerProcess,
        pod_ip: str,
        probed: ProbeListener,
        unhealthy: Callable[[str, str], None],
        *,
        pace: float = 1.0,
    ) -> None:
        self._container = container
        self._run = run
        self._pod_ip = pod_ip
        self._probed = probed
        self._unhealthy = unhealthy
        self._pace = pace

    async def watch(self) -> FailedProbe:
        """Probe until the container must be stopped, which may never happen."""
        began = asyncio.get_running_loop().time()
        startup = self._container.startup_probe
        if startup and not await self._has_started(startup, began):
            return FailedProbe("startup", startup)
        self._probed(started=True, ready=self._container.readiness_probe is None)
        async with asyncio.TaskGroup() as group:
            readiness = group.create_task(self._watch_readiness(began))
            try:
                return await self._watch_liveness(began)
            finally:
                readiness.cancel()

    async def _has_started(self, probe: ProbeSpecification, began: float) -> bool:
        async for verdict in self._verdicts("startup", probe, began):
            if verdict is not None:
                return verdict
        raise AssertionError("probes go on for ever")

    async def _watch_readiness(self, began: float) -> None:
        probe = self._container.readiness_probe
        if probe is None:
            return
        async for verdict in self._verdicts("readiness", probe, began):
            self._probed(started=True, ready=verdict is True)

    async def _watch_liveness(self, began: float) -> FailedProbe:
        probe = self._container.liveness_probe
        if probe is None:
            await asyncio.Event().wait()
            raise AssertionError("nobody sets this event")
        async for verdict in self._verdicts("liveness", probe, began):
            if verdict is False:
                return FailedProbe("liveness", probe)
        raise AssertionError("probes go on for ever")

    async def _verdicts(
        self, name: str, probe: ProbeSpecification, began: float
    ) -> AsyncGenerator[bool | None, None]:
        """Yield the state after each result; the initial delay begins at the start."""
        probe = self._expanded(probe)
        threshold = ProbeThreshold(probe.success_threshold, probe.failure_threshold)
        loop = asyncio.get_running_loop()
        first_time = began + probe.initial_delay_seconds * self._pace
        await asyncio.sleep(max(0.0, first_time - loop.time()))
        while True:
            next_time = loop.time() + probe.period_seconds * self._pace
            result = await run_action(
                probe, self._container, self._run, self._pod_ip, probe.timeout_seconds
            )
            if not result.is_good:
                self._unhealthy(name, result.text)
            threshold = threshold.after(result.is_good)
            yield threshold.verdict
            await asyncio.sleep(max(0.0, next_time - loop.time()))

    def _expanded(self, probe: ProbeSpecification) -> ProbeSpecification:
        if probe.exec is None:
            return probe
        variables = {
            each["name"]: each.get("value", "")
            for each in self._container.env
            if "valueFrom" not in each
        }
        words = tuple(expand(word, variables) for word in probe.exec.command)
        return structs.replace(probe, exec=structs.replace(probe.exec, command=words))
