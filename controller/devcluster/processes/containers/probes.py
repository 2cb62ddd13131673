"""The probes of one run of a container."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from controller.devcluster.processes.containers.actions import run_action
from controller.devcluster.processes.containers.probe_threshold import ProbeThreshold
from controller.devcluster.processes.specification.expansion import expand

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from controller.devcluster.processes.containers.container_process import ContainerProcess
    from controller.devcluster.processes.specification.specification import (
        ContainerSpecification,
        ProbeSpecification,
    )


class ProbeListener(Protocol):
    """Receives whether a container has started and whether it is ready."""

    def __call__(self, *, started: bool, ready: bool) -> None:
        """Handle a result of the probes."""
        ...


@dataclass(frozen=True, slots=True)
class FailedProbe:
    """A failed `startup` or `liveness` probe, for which the container must be stopped."""

    name: str
    probe: ProbeSpecification


class ContainerProbes:
    """Runs the probes of one container process.

    Args:
        container: its specification.
        run: run of the container.
        pod_ip: address for requests and connections.
        probed: receives results.
        unhealthy: receives each failure: which probe, and why.
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
        """Expand variables with known values in a probe's command."""
        if probe.exec is None:
            return probe
        variables = {v.name: v.value for v in self._container.env if v.value_from is None}
        words = tuple(expand(word, variables) for word in probe.exec.command)
        return replace(probe, exec=replace(probe.exec, command=words))
