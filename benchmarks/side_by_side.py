"""Manta beside KubeRay's operator: what each needs for the same RayClusters.

Each operator gets a new real API server (etcd and kube-apiserver of tests/lab), a fake
kubelet that reports every pod as ready, and RayClusters as in KubeRay's performance tests: a head
and three workers. One operator runs after the other, each with 16 reconciles at a time and no
limit of requests. KubeRay's operator is measured if KUBERAY_OPERATOR names its binary. Processor
time, memory and requests are those of the operator's process alone.

Times by the clock depend on what else the machine does; processor seconds and ratios hardly do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from msgspec import Struct
from msgspec.structs import asdict

from benchmarks.planes import real_plane
from benchmarks.processes import MeasuredProcess, measured
from controller.kube.client import Client
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import World
from tests.lab.control_plane import control_plane
from tests.lab.programs import why_missing
from tests.ports import free_ports

ROOT: Final = Path(__file__).parents[1]

SETTLE: Final = 10.0
"""Seconds after which an operator has done what it will do."""

IDLE: Final = 30.0
"""Seconds for which an operator with nothing to do is watched."""

SCRAPES: Final = 5
START_SECONDS: Final = 120.0
CREATIONS: Final = 16
"""RayClusters that are created at a time, without a burst."""

BURST: Final = 1000
"""RayClusters that are posted in a second of a burst, before others are answered."""

ASKED_AT_ONCE: Final = 20
"""RayClusters whose states are read at a time."""


class Figures(Struct, frozen=True):
    """What was measured of one operator."""

    seconds_until_ready: float
    cpu_ms_per_cluster: float
    requests_per_cluster: float
    memory_empty_mib: float
    memory_full_mib: float
    idle_cpu_seconds: float
    scrape_cpu_ms: float
    restart_seconds: float
    restart_cpu_seconds: float


LABELS: Final = {
    "seconds_until_ready": "all clusters ready, s",
    "cpu_ms_per_cluster": "CPU per cluster, ms",
    "requests_per_cluster": "requests per cluster",
    "memory_empty_mib": "memory without clusters, MiB",
    "memory_full_mib": "memory with all clusters, MiB",
    "idle_cpu_seconds": f"CPU of {IDLE:.0f} s at rest, s",
    "scrape_cpu_ms": "CPU of a scrape, ms",
    "restart_seconds": "start to first reconcile, s",
    "restart_cpu_seconds": "CPU of the start, s",
}


class Launch(Struct, frozen=True):
    """How an operator is started; all find the kubeconfig in the environment.

    Attributes:
        name: of the operator.
        command: returns the arguments, given the addresses of metrics and of health.
        reconciling: what it logs when its caches are complete and its workers begin.
    """

    name: str
    command: Callable[[str, str], list[str]]
    reconciling: bytes


def manta(python: str, bytecode: str) -> Launch:
    """`manta run` of this tree, with this interpreter; compiled as in the image, into a folder."""
    compiled = f"PYTHONPYCACHEPREFIX={bytecode}"
    packages = [str(ROOT / name) for name in ("controller", "informers", "workqueue")]
    compiler = str(ROOT / "scripts" / "compile-image")
    subprocess.run(["env", compiled, python, compiler, *packages], check=True)
    run = ["env", compiled, python, "-m", "controller", "run", "--workers", "16"]
    return Launch(
        "Manta",
        lambda metrics, health: [*run, "--metrics-address", metrics, "--health-address", health],
        b"manager.started",
    )


def kuberay(binary: str) -> Launch:
    """KubeRay's operator, without a limit of requests, and with its metrics of objects."""
    run = [binary, "-reconcile-concurrency", "16", "-qps", "100000", "-burst", "100000"]
    run += ["-enable-leader-election=false", "-enable-metrics"]

    def command(metrics: str, health: str) -> list[str]:
        return [*run, "-metrics-addr", metrics, "-health-probe-bind-address", health]

    return Launch("KubeRay", command, b"Starting workers")


def ray_cluster(name: str) -> dict[str, Any]:
    """A RayCluster of KubeRay's performance tests: a head and three workers."""

    def group(container: str, **more: Any) -> dict[str, Any]:
        resources = {"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}}
        mount = {"mountPath": "/tmp/ray", "name": "ray-logs"}
        spec: dict[str, Any] = {
            "containers": [
                {
                    "name": container,
                    "image": "rayproject/ray:2.52.0",
                    "volumeMounts": [mount],
                    "resources": resources,
                    **more,
                }
            ],
            "volumes": [{"name": "ray-logs", "emptyDir": {}}],
        }
        return {"template": {"spec": spec}}

    ports = {"gcs": 6379, "dashboard": 8265, "client": 10001}
    listed = [{"containerPort": port, "name": name} for name, port in ports.items()]
    head = {
        "rayStartParams": {"dashboard-host": "0.0.0.0"},
        **group("ray-head", ports=listed),
    }
    workers = {
        "groupName": "small-group",
        "replicas": 3,
        "minReplicas": 1,
        "maxReplicas": 10,
        **group("ray-worker"),
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "labels": {"perf-test": "ray-cluster"}},
        "spec": {"rayVersion": "2.52.0", "headGroupSpec": head, "workerGroupSpecs": [workers]},
    }


class Metrics:
    """The metrics that an operator serves at an address."""

    def __init__(self, address: str) -> None:
        self._url = f"http://{address}/metrics"

    def text(self) -> str:
        """All of them; empty while it does not serve."""
        try:
            with urllib.request.urlopen(self._url, timeout=30) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def requests(self) -> float:
        """Requests to the API server that were answered."""
        return self._total("rest_client_requests_total{")

    def _total(self, prefix: str) -> float:
        lines = self.text().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(prefix))


class Trial:
    """Measures one operator on one API server.

    Args:
        launch: the operator.
        kubeconfig: of the API server; logs are written beside it.
        clusters: how many RayClusters to create.
        burst: whether all are posted at once, `BURST` in a second.
    """

    def __init__(self, launch: Launch, kubeconfig: Path, clusters: int, *, burst: bool) -> None:
        self._launch = launch
        self._kubeconfig = kubeconfig
        self._clusters = clusters
        self._create = create_in_a_burst if burst else create_some_at_a_time

    async def run(self) -> Figures:
        """Measure the operator from its start to its second start."""
        async with real_plane(self._kubeconfig) as world:
            with self._child("kubelet", [sys.executable, "-m", "benchmarks.fake_kubelet"]):
                first = await self._first_life(world)
                second = await self._second_life()
        return Figures(**first, **second)

    async def _first_life(self, world: World) -> dict[str, float]:
        with self._operator() as (process, metrics):
            await _until(lambda: "rest_client" in metrics.text(), START_SECONDS)
            await asyncio.sleep(SETTLE)
            empty = process.resident_mib()
            requests, cpu, began = metrics.requests(), process.cpu_seconds(), time.monotonic()
            self._report(f"creating {self._clusters} RayClusters")
            await self._create(world, self._clusters)
            await self._until_ready(world, process)
            seconds = time.monotonic() - began
            await asyncio.sleep(SETTLE)
            cpu, full = process.cpu_seconds() - cpu, process.resident_mib()
            requests = metrics.requests() - requests
            self._report(f"at rest for {IDLE:.0f} s")
            idle = process.cpu_seconds()
            await asyncio.sleep(IDLE)
            idle = process.cpu_seconds() - idle
            scrape = process.cpu_seconds()
            for _ in range(SCRAPES):
                metrics.text()
            scrape = (process.cpu_seconds() - scrape) / SCRAPES
        return {
            "seconds_until_ready": seconds,
            "cpu_ms_per_cluster": 1e3 * cpu / self._clusters,
            "requests_per_cluster": requests / self._clusters,
            "memory_empty_mib": empty,
            "memory_full_mib": full,
            "idle_cpu_seconds": idle,
            "scrape_cpu_ms": 1e3 * scrape,
        }

    async def _second_life(self) -> dict[str, float]:
        self._report("starting again")
        with self._log(self._launch.name).open("rb") as log:
            log.seek(0, os.SEEK_END)
            return await self._start(log)

    async def _start(self, log: BinaryIO) -> dict[str, float]:
        """Measure a start by what is logged: being asked for metrics would delay it."""
        began = time.monotonic()
        with self._operator() as (process, _):
            await _until(lambda: self._launch.reconciling in log.read(), START_SECONDS)
            seconds = time.monotonic() - began
            await asyncio.sleep(SETTLE)
            return {"restart_seconds": seconds, "restart_cpu_seconds": process.cpu_seconds()}

    async def _until_ready(self, world: World, process: MeasuredProcess) -> None:
        reported = began = time.monotonic()
        for first in range(0, self._clusters, ASKED_AT_ONCE):
            numbers = range(first, min(first + ASKED_AT_ONCE, self._clusters))
            while not await all_ready(world, numbers):
                process.check()
                now = time.monotonic()
                if now > began + START_SECONDS + self._clusters:
                    raise SystemExit(
                        f"{self._launch.name}: {cluster_name(first)} did not become ready"
                    )
                if now > reported + SETTLE:
                    self._report(f"all RayClusters before {cluster_name(first)} are ready")
                    reported = now
                await asyncio.sleep(0.5)

    @contextmanager
    def _operator(self) -> Generator[tuple[MeasuredProcess, Metrics]]:
        metrics, health = (f"127.0.0.1:{port}" for port in free_ports(2))
        command = self._launch.command(metrics, health)
        with self._child(self._launch.name, command) as process:
            yield process, Metrics(metrics)

    def _child(self, name: str, command: Sequence[str]) -> AbstractContextManager[MeasuredProcess]:
        return measured(command, self._log(name), {"KUBECONFIG": str(self._kubeconfig)})

    def _log(self, name: str) -> Path:
        return self._kubeconfig.with_name(f"{name}.log")

    def _report(self, text: str) -> None:
        sys.stderr.write(f"{self._launch.name}: {text}\n")


async def create_some_at_a_time(world: World, count: int) -> None:
    """Create RayClusters, the next one when one of the `CREATIONS` before is answered."""
    names = iter(range(count))

    async def create_some() -> None:
        for number in names:
            await _create_cluster(world.user, world.namespace, number)

    async with asyncio.TaskGroup() as group:
        for _ in range(CREATIONS):
            group.create_task(create_some())


async def create_in_a_burst(world: World, count: int) -> None:
    """Post RayClusters without waiting for answers."""
    loop = asyncio.get_running_loop()
    user = Client(
        world.transport, user_agent="burst", clock=loop, concurrency=count, timeout=START_SECONDS
    )
    began = loop.time()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / BURST - loop.time()))
            group.create_task(_create_cluster(user, world.namespace, number))


async def _create_cluster(user: Client, namespace: str, number: int) -> None:
    await user.create(RAYCLUSTERS, namespace, ray_cluster(cluster_name(number)))


def cluster_name(number: int) -> str:
    """Name one of the RayClusters."""
    return f"c{number}"


async def all_ready(world: World, numbers: Iterable[int]) -> bool:
    """Tell whether these RayClusters are ready.

    All are asked for one by one: lists of 10,000 would cost the API server more than the operator.
    """
    reads = (world.user.get(RAYCLUSTERS, world.namespace, cluster_name(each)) for each in numbers)
    found = await asyncio.gather(*reads)
    return all(each.status.get("state") == "ready" for each in found)


async def _until(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"an operator was not up after {seconds:.0f} s")
        await asyncio.sleep(0.02)


def table(figures: Mapping[str, Figures]) -> str:
    """The figures of all operators, and the ratio of the first to the second."""
    rows = [["", *figures, *(["ratio"] if len(figures) > 1 else [])]]
    for field, label in LABELS.items():
        values = [getattr(each, field) for each in figures.values()]
        ratios = [f"{values[0] / values[1]:.2f}"] if len(values) > 1 and values[1] else []
        rows.append([label, *(f"{value:.2f}" for value in values), *ratios])
    return "\n".join(row[0].ljust(34) + "".join(cell.rjust(10) for cell in row[1:]) for row in rows)


def measure(launches: Sequence[Launch], clusters: int, *, burst: bool) -> dict[str, Figures]:
    """Measure each operator on an API server of its own."""
    found: dict[str, Figures] = {}
    for launch in launches:
        with (
            tempfile.TemporaryDirectory(prefix="manta-side-by-side-") as folder,
            control_plane(Path(folder), controllers=False) as plane,
        ):
            trial = Trial(launch, plane.kubeconfig, clusters, burst=burst)
            found[launch.name] = asyncio.run(trial.run())
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(
        prog="python -m benchmarks.side_by_side",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="environment:\n"
        "  KUBEBUILDER_ASSETS  folder with etcd and kube-apiserver (default: those of `make lab`)\n"
        "  KUBERAY_OPERATOR    KubeRay's operator, built with `go build` in its ray-operator",
    )
    found.add_argument(
        "--clusters", type=int, default=1000, metavar="N", help="RayClusters (default: 1000)"
    )
    found.add_argument(
        "--burst",
        action="store_true",
        help=f"post them at {BURST} a second instead of {CREATIONS} at a time",
    )
    found.add_argument(
        "--python",
        default=sys.executable,
        help="interpreter that runs Manta (default: this one); one whose environment has only "
        "what requirements.lock names needs the memory that the image needs",
    )
    found.add_argument("-o", "--output", choices=["table", "json"], default="table")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    options = parser().parse_args(arguments)
    if missing := why_missing("etcd", "kube-apiserver"):
        sys.stderr.write(f"{missing}\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="manta-bytecode-") as bytecode:
        launches = [manta(options.python, bytecode)]
        if binary := os.environ.get("KUBERAY_OPERATOR"):
            launches.append(kuberay(binary))
        figures = measure(launches, options.clusters, burst=options.burst)
    if options.output == "json":
        listed = {name: asdict(each) for name, each in figures.items()}
        asked = {"clusters": options.clusters, "burst": options.burst}
        sys.stdout.write(json.dumps(asked | listed, indent=2) + "\n")
    else:
        sys.stdout.write(table(figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
