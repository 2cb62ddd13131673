"""Releases of the chart, applied by real helm, with the operator run as each of them says."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.chart.helm import helm
from tests.integration.deployed import MANAGER, Container, Site, container_of

NO_PORTS = "extraArgs={--metrics-addr=0,--health-probe-bind-address=0}"
"""Setting with which releases of several tests can run at once."""


def for_any_server(chart: Path) -> Path:
    """The chart without its least version of Kubernetes: servers built for tests have none."""
    described = chart / "Chart.yaml"
    lines = described.read_text().splitlines(keepends=True)
    described.write_text("".join(line for line in lines if not line.startswith("kubeVersion:")))
    return chart


class Release:
    """A release of the chart in a namespace of its own."""

    def __init__(self, at: Site, folder: Path) -> None:
        self.namespace = at.namespace("release")
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(at.kubeconfig)

    async def run(self, verb: str, *arguments: str) -> str:
        where = f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}"
        command = [*verb.split(), self.namespace, *arguments, *where]
        return (await asyncio.to_thread(helm, *command)).stdout

    async def objects(self) -> list[dict[str, Any]]:
        applied = await self.run("get manifest")
        return [each for each in yaml.load_all(applied, Loader=yaml.CSafeLoader) if each]


@asynccontextmanager
async def operator(at: Site, release: Release, folder: Path) -> AsyncGenerator[Container]:
    """The operator of the release, as the kubelet runs it; it is asked to end at the end."""
    async with container_of(at, await release.objects(), folder, MANAGER) as container:
        yield container
        container.popen.send_signal(signal.SIGTERM)
        await asyncio.to_thread(container.popen.wait, 60)


async def until(reached: Callable[[], Awaitable[bool]], container: Container) -> None:
    async with asyncio.timeout(100):
        while not await reached():
            assert container.popen.poll() is None, container.log.read_text()
            await asyncio.sleep(0.2)
