"""API servers to measure on, in real time: the embedded one in this process, and a real one.

No kubelet runs on either: what is made stays as it was made. A `Witness` in the operator's seam
notes when each pod came to be, so that measuring costs no watch.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from controller.kube.http import HttpTransport
from controller.kube.kubeconfig import load_credentials
from controller.kube.resources import NAMESPACES
from controller.kube.transport import RawResponse, Request, Transport
from devcluster.apiserver import ApiServer
from tests.integration.harness import World, install_crds
from tests.lab.control_plane import SERVERS, control_plane
from tests.lab.programs import why_missing

_CLUSTER = re.compile(rb'"ray\.io/cluster":"([^"]+)"')


class Witness:
    """A transport that notes when the pods of each RayCluster were made."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.made: defaultdict[str, list[float]] = defaultdict(list)
        self._news = asyncio.Event()

    async def request(self, request: Request) -> RawResponse:
        """Send a request; see `Transport.request`."""
        answer = await self._inner.request(request)
        body = request.body
        if (
            request.method == "POST"
            and body
            and request.path.endswith("/pods")
            and answer[0] == 201
        ):
            found = _CLUSTER.search(body)
            if found:
                self.made[found[1].decode()].append(time.perf_counter())
                self._news.set()
        return answer

    async def until(self, cluster: str, pods: int) -> float:
        """Time at which the cluster's pod of that number was made; waits for it."""
        while len(self.made[cluster]) < pods:
            self._news.clear()
            await self._news.wait()
        return self.made[cluster][pods - 1]


@asynccontextmanager
async def embedded_plane() -> AsyncGenerator[World]:
    """A world on an embedded API server."""
    loop = asyncio.get_running_loop()
    server = ApiServer(wall=_wall, clock=loop, rng=random.Random(1))
    try:
        world = World(server, namespace="default", server=server, wall=_wall)
        await install_crds(world)
        yield world
    finally:
        await server.aclose()


@asynccontextmanager
async def real_plane(kubeconfig: Path) -> AsyncGenerator[World]:
    """A world in a new namespace of the API server that `kubeconfig` leads to."""
    credentials = await load_credentials(kubeconfig=str(kubeconfig), context=None)
    transport = HttpTransport(credentials, user_agent="manta-bench")
    try:
        namespace = f"bench-{os.urandom(4).hex()}"
        world = World(transport, namespace=namespace, server=None, wall=_wall)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await world.user.create(NAMESPACES, "", body)
        await install_crds(world)
        yield world
    finally:
        await transport.aclose()


@contextmanager
def lab_plane() -> Generator[Path | None]:
    """Kubeconfig of a real control plane; None where the lab is not built."""
    if why_missing(*SERVERS):
        yield None
        return
    with (
        tempfile.TemporaryDirectory(prefix="manta-bench-") as folder,
        control_plane(Path(folder)) as plane,
    ):
        yield plane.kubeconfig


def children_seconds() -> float:
    """Processor seconds of this process's living children: the control plane's. Linux only."""
    tick = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for task in Path("/proc/self/task").glob("*/children"):
        for pid in task.read_text().split():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / tick
    return total


def _wall() -> datetime:
    return datetime.now(UTC)
