"""One run of a container: its process, other commands, probes and hooks, and its time to end."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import aiohttp
from msgspec import Struct, structs
from msgspec.structs import replace

from controller.kube.http import ends_within
from devcluster.processes.environment import expand
from devcluster.processes.output import Output, Pipe
from devcluster.processes.pod_sandbox import ContainerDir, Launch
from devcluster.processes.specification import (
    Action,
    ContainerSpecification,
    HttpAction,
    ProbeSpecification,
    TcpAction,
)

RECHECK_SECONDS = 10.0
"""Seconds until a missing object is read again, if no event announces it."""


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Wait for `event`, for at most `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class GracePeriod:
    """A deadline that may be shortened."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + seconds
        self._shortened = asyncio.Event()

    @property
    def remaining(self) -> float:
        """Remaining seconds, 0 if it is over."""
        return max(0.0, self._end - self._loop.time())

    def shorten(self, seconds: float) -> None:
        """End in at most `seconds` from now."""
        end = self._loop.time() + seconds
        if end < self._end:
            self._end = end
            self._shortened.set()

    async def passes_before(self, awaited: asyncio.Future[Any], *, least: float = 0.0) -> bool:
        """Wait for `awaited` or the end; return whether the end came first.

        `least` seconds are waited for in any case, unless the time is shortened.
        """
        extra = max(0.0, least - self.remaining)
        while not awaited.done():
            left = self.remaining + extra
            if left <= 0:
                return True
            self._shortened.clear()
            moved = asyncio.ensure_future(self._shortened.wait())
            try:
                await asyncio.wait(
                    {awaited, moved}, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                if moved.done():
                    extra = 0.0
            finally:
                moved.cancel()
            if not awaited.done() and not self.remaining:
                return True
        return False


_DRAIN = 2.0  # seconds for the last output after the end
_LET_GO = 0.5  # seconds for the supervisor of another command to end what it has started
_KILL = 5.0  # seconds for the supervisor to end everything before it is killed itself
_LONGEST_ANSWER = 10 * 1024


class ActionResult(Struct, frozen=True):
    """The result of a probe or hook."""

    is_good: bool
    text: str

    @classmethod
    def failed(cls, text: str) -> ActionResult:
        """Return that of an action that has failed."""
        return cls(is_good=False, text=text)


class ContainerProcess:
    """A running container, created by `start`.

    Attributes:
        exited: gives the exit code, 128 + n after signal n, when the process has ended and its
            output is complete.
        was_killed: whether the kubelet killed it.
    """

    def __init__(
        self,
        container_dir: ContainerDir,
        launch: Launch,
        process: Process,
        pipes: tuple[Pipe, Pipe],
    ) -> None:
        self._container_dir = container_dir
        self._launch = launch
        self._process = process
        self._pipes = pipes
        self.was_killed = False
        self.exited: asyncio.Task[int] = asyncio.create_task(self._wait())

    @classmethod
    async def start(
        cls, container_dir: ContainerDir, argv: Sequence[str], output: Output
    ) -> ContainerProcess:
        """Start `argv` in `container_dir`, with an empty standard input.

        Raises:
            OSError: the machine cannot start another process.
        """
        pipes = (Pipe(output), Pipe(output))
        try:
            launch = container_dir.command(argv)
            process = await asyncio.create_subprocess_exec(
                *launch.argv,
                env=launch.env,
                cwd=launch.cwd,
                stdin=DEVNULL,
                stdout=pipes[0].writer,
                stderr=pipes[1].writer,
                start_new_session=True,
            )
        except BaseException:
            for pipe in pipes:
                pipe.close()
            raise
        for pipe in pipes:
            pipe.started()
        return cls(container_dir, launch, process, pipes)

    @property
    def start_error(self) -> str:
        """The reason why the command could not be started; empty if it could."""
        return self._container_dir.start_error()

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    async def kill(self) -> None:
        """Kill it and its descendants."""
        if not self.exited.done():
            self.was_killed = True
            self._send(self._launch.kill_signal)
            done, _ = await asyncio.wait({self.exited}, timeout=_KILL)
            if not done:
                self._send(signal.SIGKILL)
        await asyncio.wait({self.exited})

    async def start_other(
        self, argv: Sequence[str], *, stdin: int, stdout: int, stderr: int
    ) -> Process:
        """Start another command in the container.

        Raises:
            OSError: the machine cannot start another process.
        """
        launch = self._container_dir.exec(argv)
        return await asyncio.create_subprocess_exec(
            *launch.argv,
            env=launch.env,
            cwd=launch.cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )

    async def kill_other(self, process: Process) -> None:
        """Kill another command and its descendants."""
        await _kill(process, self._launch.kill_signal)

    async def exec(self, argv: Sequence[str], seconds: float | None) -> ActionResult:
        """Run another command in the container, for at most `seconds`."""
        try:
            process = await self.start_other(argv, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
        except OSError as error:
            return ActionResult.failed(f"command cannot be started: {error}")
        try:
            async with asyncio.timeout(seconds):
                text = await _read(process)
                code = await process.wait()
        except TimeoutError:
            return ActionResult.failed(f"command timed out after {seconds:g}s")
        finally:  # what it has started may hold its output, even if it has ended itself
            await self.kill_other(process)
        if code == 0:
            return ActionResult(is_good=True, text=text)
        return ActionResult.failed(text.strip() or f"command exited with code {code}")

    async def close(self) -> None:
        """Remove its directory after it has ended."""
        await self._container_dir.close()

    async def _wait(self) -> int:
        code = await self._process.wait()
        await asyncio.gather(*(pipe.drained(_DRAIN) for pipe in self._pipes))
        return 128 - code if code < 0 else code

    def _send(self, number: signal.Signals | int) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)


async def _kill(process: Process, kill_signal: signal.Signals | int) -> None:
    """Kill a command with all processes of its session, and wait until its output is closed."""
    with suppress(ProcessLookupError):
        process.send_signal(kill_signal)
    if await ends_within(_LET_GO, process.communicate()):
        return
    with suppress(ProcessLookupError):  # in namespaces the supervisor kills the command alone
        os.killpg(process.pid, signal.SIGKILL)
    await ends_within(_KILL, process.communicate())


async def _read(process: Process) -> str:
    """Return the first part of the process's output; the rest is read and dropped."""
    stream = process.stdout
    assert stream is not None
    kept = b""
    while chunk := await stream.read(_LONGEST_ANSWER):
        kept += chunk[: _LONGEST_ANSWER - len(kept)]
    return kept.decode(errors="replace")


# Probes and hooks: their actions, thresholds and results.


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
