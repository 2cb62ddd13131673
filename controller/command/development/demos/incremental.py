"""`manta demo --kind rayservice-incremental`: capacity and requests move step by step, and back.

Like `service`, with a Gateway in front of the clusters. The first upgrade is reverted half-way, the
second is completed. A client on this machine sends the Gateway up to 20 requests a second. The exit
status is 0 only if no request failed, the old cluster's config never changed except for its
capacity, and everything moved in steps.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from controller.command.development.demos import serve_client
from controller.command.development.demos.real_ray import demo_with_real_ray
from controller.command.development.demos.serve_manifest import ServeManifest, read_manifest
from controller.command.development.demos.service import (
    NAMESPACE,
    ServiceDemoSummary,
    ServicePlay,
    stage,
    wrong_configs,
    wrong_requests,
)
from controller.command.development.demos.steps import informer_for
from controller.command.development.demos.traffic import MeasuredShares, Traffic, chart_of
from controller.kube.errors import ConfigurationError
from controller.kube.resources import GATEWAYS

if TYPE_CHECKING:
    from pathlib import Path

    from controller.command.development.demos.real_ray import MachineOptions
    from controller.command.development.process_node import ProcessNode
    from controller.command.development.view import Screen
    from controller.kube.objects import Gateway


_HALF = 50  # percent
_PORT = 80  # of the Gateway


async def incremental_demo(
    manifest: Path, machine: MachineOptions, chart: Path | None = None
) -> int:
    """Run the demo and print its summary; returns the exit status.

    Args:
        manifest: a RayService with `NewClusterWithIncrementalUpgrade`, its GatewayClass, and
            applications that answer as those of the example do.
        machine: the options of this machine.
        chart: file for the chart; None draws none.

    Raises:
        ConfigurationError: the manifest or the file of the chart cannot be used, or Ray cannot be
            installed.
    """
    documents = read_manifest(manifest)
    if chart is not None and not chart.parent.is_dir():
        raise ConfigurationError(f"--chart {chart}: there is no folder {chart.parent}")
    summary = ServiceDemoSummary(Traffic(), [])
    shares = MeasuredShares()
    status = await demo_with_real_ray(
        lambda node, screen: _play(documents, node, screen, summary, shares),
        summary,
        machine,
    )
    if chart is not None:
        await asyncio.to_thread(chart.write_text, chart_of(shares, summary.traffic).svg())
    return status


async def _play(
    manifest: ServeManifest,
    node: ProcessNode,
    screen: Screen,
    summary: ServiceDemoSummary,
    shares: MeasuredShares,
) -> None:
    async with stage(manifest, node, screen, summary) as play:
        play.view.on_change.append(lambda: shares.saw(play.view.shares()))
        client = _GatewayClient(play)
        try:
            reverted = await _steps(play, client, shares)
        finally:
            await client.aclose()
        _check(play, shares, reverted)


async def _steps(play: ServicePlay, client: _GatewayClient, shares: MeasuredShares) -> str:
    """Return the cluster of the upgrade that is reverted."""
    manifest, view = play.manifest, play.view
    old = dict.fromkeys(manifest.routes, "v1")
    await play.create()
    async with play.step("Gateway programmed -> answers of v1"):
        await client.start()
        await play.answered(old, play.first)
    async with play.step(f"edited -> {_HALF} % of the requests"):
        shares.mark("edited: v2")
        await play.edit(manifest.new_version("v2"))
        await view.until(lambda v: bool(v.pending) and shares.weight(v.pending) >= _HALF)
        reverted = view.pending
    async with play.step("reverted -> all requests are back"):
        shares.mark("reverted: v1")
        await play.edit(manifest.service["spec"])
        await view.until(lambda v: not v.pending and v.active == play.first)
        await play.answered(old, play.first)
    async with play.step("edited again -> v2"):
        shares.mark("edited: v2")
        await play.edit(manifest.new_version("v2"))
        await view.until(lambda v: v.active not in {play.first, ""} and not v.pending)
        play.second = view.active
        await play.answered(dict.fromkeys(manifest.routes, "v2"), play.second)
        shares.mark("complete")
    async with play.step("-> old clusters deleted"):
        await view.until(lambda v: len(v.clusters) == 1)
        await play.settled()
    async with play.step("deleted -> nothing left"):
        await client.aclose()
        await play.remove()
    return reverted


def _check(play: ServicePlay, shares: MeasuredShares, reverted: str) -> None:
    """Record violations."""
    summary = play.summary
    versions = {play.first: {"v1"}, reverted: {"v2"}, play.second: {"v2"}}
    options = play.manifest.service["spec"]["upgradeStrategy"]["clusterUpgradeOptions"]
    summary.wrong += wrong_requests(summary.traffic)
    summary.wrong += wrong_configs(summary.puts, summary.traffic, versions)
    summary.wrong += shares.wrong(options["maxSurgePercent"], options["stepSizePercent"])


class _GatewayClient:
    """The client on this machine, as a process that asks the Gateway."""

    def __init__(self, play: ServicePlay) -> None:
        self._play = play
        self._address = ""
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start it when the Gateway has an address."""
        play = self._play
        user = play.cluster.client("demo-user")
        gateways = informer_for(user, GATEWAYS, self._saw_gateway)
        self._tasks.append(play.tasks.create_task(gateways.run()))
        await play.view.until(lambda _: bool(self._address))
        paths = list(play.manifest.routes.values())
        play.screen.change(f"this machine asks the Gateway: curl http://{self._address}{paths[0]}")
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, serve_client.__file__, self._address, str(_PORT), *paths),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env=play.node.environment_of("client"),
            start_new_session=True,  # Ctrl-C is for the process that has started it
        )
        self._tasks.append(play.tasks.create_task(self._read(self._process)))

    async def aclose(self) -> None:
        """End it."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        for task in self._tasks:
            task.cancel()

    def _saw_gateway(self, key: str, gateway: Gateway | None) -> None:
        """Remember the address of the Gateway."""
        if gateway is not None and key == f"{NAMESPACE}/{self._play.manifest.name}-gateway":
            self._address = next((str(each["value"]) for each in gateway.status.addresses), "")
            self._play.view.refresh()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Count what it prints."""
        assert process.stdout is not None
        async for line in process.stdout:
            self._play.saw_line(line.decode())
