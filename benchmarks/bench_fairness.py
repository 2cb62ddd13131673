"""Fifty clusters with three workers each, alone and beside one that grows by two thousand.

What users of the fifty want to know is how much longer their pods take because of the big one;
what its user wants to know is pods per second. Real time, on the embedded API server, which shares
this process, and on a real one where the lab is built (tests/lab/README.md).

Before that, `FLEET` clusters that are created at once, in virtual time: how long those whose pods
are ready wait until their status says so.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec import Struct

from benchmarks.planes import (
    Witness,
    children_seconds,
    embedded_plane,
    lab_plane,
    real_plane,
)
from benchmarks.virtual import run_virtual
from controller.kube.transport import RawResponse, Request, Transport
from controller.ray.api import RAYCLUSTERS
from controller.ray.cluster import RayClusterKind
from controller.runtime.settings import Settings, configure_logging
from devcluster.apiserver import StoredEvent
from tests.integration.harness import OPERATOR, World, embedded_world, example_cluster
from tests.lab.control_plane import SERVERS
from tests.lab.programs import why_missing

BIG = "big"
HEADS = 1
WORKERS = 3
FLEET = 200
FEW = Settings(
    namespaces=("default",), workers=4, slow_reconciles=8, metrics_address="", health_address=""
)
"""As few reconciles at once, beside `FLEET` clusters, as by default beside ten thousand."""


class Sizes(Struct, frozen=True):
    """The number of clusters beside the big one, and of the workers by which it grows."""

    clusters: int = 50
    growth: int = 2000


class FairnessTrial(Struct, frozen=True):
    """Measurements of one trial.

    Attributes:
        delays: seconds from the creation of each small cluster to its last pod, sorted.
        growth: seconds in which the big cluster grew, 0 if there was none.
        operator: processor seconds of this process.
        servers: processor seconds of the control plane's processes.
    """

    delays: list[float]
    growth: float
    operator: float
    servers: float


async def trial(world: World, sizes: Sizes) -> FairnessTrial:
    """Create the small clusters while the big one grows, if it shall."""
    witness = Witness(world.transport)
    operator = world.start_operator(transport=witness)
    try:
        await world.create_cluster("first", replicas=0)
        await witness.until("first", HEADS)
        if sizes.growth:
            await world.user.create(RAYCLUSTERS, world.namespace, _big_cluster())
            await witness.until(BIG, HEADS)
        used, used_by_servers = time.process_time(), children_seconds()
        began = time.perf_counter()
        if sizes.growth:
            await world.scale(sizes.growth, BIG)
            await witness.until(BIG, HEADS + sizes.growth // 10)  # it is at full speed
        names = [f"c{number}" for number in range(sizes.clusters)]
        delays = await asyncio.gather(*(_delay(world, witness, name) for name in names))
        grown = await witness.until(BIG, HEADS + sizes.growth) - began if sizes.growth else 0.0
        return FairnessTrial(
            sorted(delays),
            grown,
            time.process_time() - used,
            children_seconds() - used_by_servers,
        )
    finally:
        await operator.kill()


async def _delay(world: World, witness: Witness, name: str) -> float:
    """Seconds from the request for a cluster to the answer about its last pod."""
    began = time.perf_counter()
    await world.create_cluster(name, replicas=WORKERS)
    return await witness.until(name, HEADS + WORKERS) - began


def _big_cluster() -> dict[str, Any]:
    cluster = example_cluster(BIG, replicas=0)
    cluster["spec"]["workerGroupSpecs"][0]["maxReplicas"] = 10_000
    return cluster


class BusyServer:
    """A transport to an API server that carries out two writes at a time, in 20 ms each."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._slots = asyncio.Semaphore(2)

    async def request(self, request: Request) -> RawResponse:
        """Send a request; see `Transport.request`."""
        if request.method != "GET":
            async with self._slots:
                await asyncio.sleep(0.02)
        return await self._inner.request(request)


class Readiness:
    """Notes when the last pod of each cluster is ready, and when its status says so."""

    def __init__(self, clock: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self.pods: dict[str, dict[str, float]] = {}
        self.told: dict[str, float] = {}

    def on_write(self, event: StoredEvent) -> None:
        """Note what a transition of the store shows."""
        found, now = event.current.object, self._clock.time()
        name, status = found["metadata"]["name"], found.get("status", {})
        if event.table == str(RAYCLUSTERS) and status.get("state") == "ready":
            self.told.setdefault(name, now)
        elif event.table == "pods" and _is_ready(status):
            pods = self.pods.setdefault(found["metadata"]["labels"]["ray.io/cluster"], {})
            pods.setdefault(name, now)


def _is_ready(status: dict[str, Any]) -> bool:
    conditions = status.get("conditions", ())
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


async def measure_fleet() -> dict[str, float]:
    """Create the fleet at once and wait until all of it is told ready."""
    async with embedded_world() as world:
        assert world.server is not None
        seen = Readiness(world.loop)
        world.server.on_write.append(seen.on_write)
        world.run_operator(
            RayClusterKind(),
            agent=OPERATOR,
            rng=random.Random(1),
            transport=BusyServer(world.transport),
            settings=FEW,
        )
        await world.settle(5)
        began = world.loop.time()
        for number in range(FLEET):
            await world.create_cluster(f"c{number}", replicas=WORKERS)
        await world.eventually(lambda: len(seen.told) == FLEET, seconds=600)
    waits = sorted(seen.told[name] - max(pods.values()) for name, pods in seen.pods.items())
    told = sorted(each - began for each in seen.told.values())
    return {
        "fleet: all clusters are told ready after, s": told[-1],
        "fleet: the first tenth is told ready after, of that": told[FLEET // 10] / told[-1],
        "fleet: wait of ready pods for the status, p50, of that": waits[FLEET // 2] / told[-1],
        "fleet: wait of ready pods for the status, max, of that": waits[-1] / told[-1],
    }


async def measure(
    label: str, plane: Callable[[], AbstractAsyncContextManager[World]], sizes: Sizes
) -> dict[str, float]:
    """Both trials and the big cluster by itself, on a fresh world each."""
    async with plane() as world:
        alone = await trial(world, Sizes(sizes.clusters, 0))
    async with plane() as world:
        together = await trial(world, sizes)
    async with plane() as world:
        single = await trial(world, Sizes(0, sizes.growth))
    figures = {
        f"{name}, {sizes.clusters} clusters {how}, s": value
        for how, tried in (("alone", alone), ("beside the big one", together))
        for name, value in _spread(tried.delays).items()
    }
    figures["ratio of the medians"] = _ratio(together, alone, "p50")
    figures["ratio of the slowest"] = _ratio(together, alone, "max")
    figures["pods/s of the big one beside the others"] = sizes.growth / together.growth
    figures["pods/s of the big one by itself"] = sizes.growth / single.growth
    figures["processor ms per pod, this process"] = 1e3 * single.operator / sizes.growth
    figures["processor ms per pod, control plane"] = 1e3 * single.servers / sizes.growth
    return {f"{label}: {name}": value for name, value in figures.items()}


def _spread(delays: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(delays, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98], "max": delays[-1]}


def _ratio(a: FairnessTrial, b: FairnessTrial, which: str) -> float:
    return _spread(a.delays)[which] / _spread(b.delays)[which]


def run(sizes: Sizes | None = None, *, embedded: bool = True) -> dict[str, float]:
    """All figures; those of the real API server only where there is one."""
    configure_logging(level="error")
    sizes = sizes or Sizes()
    figures = run_virtual(measure_fleet()) if embedded else {}
    if embedded:
        figures |= asyncio.run(measure("embedded", embedded_plane, sizes))
    with lab_plane() as kubeconfig:
        if kubeconfig is None:
            figures[f"real: NOT MEASURED, {why_missing(*SERVERS)}"] = float("nan")
        else:
            figures |= asyncio.run(measure("real", lambda: real_plane(kubeconfig), sizes))
    figures["load of the machine at the end"] = os.getloadavg()[0]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=Sizes().clusters)
    parser.add_argument("--growth", type=int, default=Sizes().growth)
    parser.add_argument("--only-real", action="store_true")
    arguments = parser.parse_args()
    sizes = Sizes(arguments.clusters, arguments.growth)
    for label, value in run(sizes, embedded=not arguments.only_real).items():
        print(f"{label:<70}{value:>10.2f}")


if __name__ == "__main__":
    main()
