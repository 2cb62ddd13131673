"""`kubectl drain` of each node in turn, under load: what is lost with Manta and with KubeRay.

Three nodes of a real control plane (tests/lab), on which pods with real Ray run as processes of
this machine; real scheduler, real eviction API, real kubectl. The same manifests and the same
program run under each operator, each on a new control plane: a RayCluster with a driver, a RayJob,
a RayService that is asked 20 times a second over connections that are kept. The nodes without the
head are drained first. A drain that is refused is tried again when the work has ended.

KubeRay's operator takes part if KUBERAY_OPERATOR names its binary. A course takes five minutes, and
the machine should do nothing else meanwhile. Needs root, iproute2, `make lab` and `make ray`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.drained_work import (
    NAME,
    PROGRAM,
    WORKERS,
    Done,
    Notes,
    config_map,
    ray_cluster,
    ray_job,
    ray_service,
)
from benchmarks.process_nodes import RunningPlane, process_nodes
from controller.apimachinery.conditions import find_condition
from controller.kube.errors import KubeError
from controller.kube.objects import Pod
from controller.kube.resources import CONFIG_MAPS, PODS, SERVICES
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.names import DASHBOARD_PORT
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.api.rayservice import RAYSERVICES
from controller.runtime.settings import configure_logging
from demos import serve_client
from demos.traffic import Traffic
from tests.lab.control_plane import SERVERS
from tests.lab.programs import path_of, why_missing
from tests.lab.running import running
from tests.ports import free_ports

ROOT: Final = Path(__file__).parents[1]
PROGRAMS: Final = (*SERVERS, "kube-scheduler", "kubectl")
NODES: Final = 3

START_SECONDS: Final = 240.0
WHOLE_SECONDS: Final = 400.0
GOES_ON_SECONDS: Final = 90.0
END_SECONDS: Final = 240.0

PATIENCE: Final = {"raycluster": 45, "rayjob": 45, "rayservice": 300}
"""Seconds after which `kubectl drain` gives the head's node up."""

DRAIN_SECONDS: Final = 150
BUSY: Final = 10
"""Tasks, or seconds of requests, before the first drain and after the last one."""


class Drain(msgspec.Struct, frozen=True):
    """One `kubectl drain`.

    Attributes:
        node: name of the node.
        head: whether the head was on it.
        seconds: how long the command took.
        drained: whether all pods went; otherwise it was given up.
        whole_seconds: seconds after that until all pods of Ray were ready elsewhere.
    """

    node: str
    head: bool
    seconds: float
    drained: bool
    whole_seconds: float = 0.0


class Requests(msgspec.Struct, frozen=True):
    """What the clients of a RayService have met.

    Attributes:
        answered: requests with status 200.
        failed: all others.
        silent_seconds: seconds in which no request was answered.
        slowest: seconds of the slowest request.
        reasons: some reasons of failures.
    """

    answered: int
    failed: int
    silent_seconds: float
    slowest: float
    reasons: list[str] = msgspec.field(default_factory=list[str])


class Outcome(msgspec.Struct, frozen=True):
    """What was counted with one operator.

    Attributes:
        drains: while the work went on.
        drains_after: of the nodes that were refused, when it had ended.
        work: of a RayCluster or RayJob.
        requests: of a RayService.
    """

    drains: list[Drain]
    drains_after: list[Drain]
    work: Done | None = None
    requests: Requests | None = None


class Course:
    """Drains the nodes of one control plane under one workload."""

    def __init__(
        self, workload: str, on: RunningPlane, notes: Notes, say: Callable[[str], None]
    ) -> None:
        self.workload = workload
        self.world = on.world
        self.nodes = on.nodes
        self.kubeconfig = on.plane.kubeconfig
        self.folder = on.plane.folder
        self.notes = notes
        self.say = say

    async def run(self) -> Outcome:
        """Drain each node in turn."""
        user, namespace = self.world.user, self.world.namespace
        await user.create(CONFIG_MAPS, namespace, config_map())
        if self.workload == "rayservice":
            await user.create(RAYSERVICES, namespace, ray_service(self.notes.folder))
            return await self._serve()
        if self.workload == "rayjob":
            await user.create(RAYJOBS, namespace, ray_job(self.notes.folder))
        else:
            await user.create(RAYCLUSTERS, namespace, ray_cluster(self.notes.folder))
            await self._until("the cluster is whole", self._is_whole, START_SECONDS)
            await self._submit()
        await self._works_on(START_SECONDS, needed=True)
        drains = await self._drain_all()
        await self._works_on(GOES_ON_SECONDS)
        self.notes.stop()
        await self._until("the result is there", self._has_ended, END_SECONDS, needed=False)
        after = [await self._drain(each.node) for each in drains if not each.drained]
        return Outcome(drains, after, work=self.notes.done())

    async def _serve(self) -> Outcome:
        await self._until("the service is ready", self._serves, START_SECONDS)
        service = await self.world.user.get(SERVICES, self.world.namespace, f"{NAME}-serve-svc")
        log = self.folder / "client.log"
        command = [sys.executable, "-u", serve_client.__file__]
        with running([*command, service.spec.cluster_ip, "8000", "/greet"], log):
            await asyncio.sleep(BUSY)
            drains = await self._drain_all()
            await asyncio.sleep(BUSY)
        return Outcome(drains, [], requests=requests_of(log.read_text()))

    async def _drain_all(self) -> list[Drain]:
        """Drain the nodes without the head, then that of the head."""
        head = next(pod.spec.node_name for pod in await self._ray_pods() if _is_head(pod))
        order = [*(node for node in self.nodes if node != head), head]
        return [await self._drain(node) for node in order]

    async def _drain(self, node: str) -> Drain:
        pods = [pod for pod in await self._ray_pods() if pod.spec.node_name == node]
        self.say(f"draining {node}: {', '.join(pod.metadata.name for pod in pods)}")
        head = any(map(_is_head, pods))
        began = time.monotonic()
        patience = PATIENCE[self.workload] if head else DRAIN_SECONDS
        drained = await self._kubectl(
            "drain", node, "--delete-emptydir-data", "--ignore-daemonsets", f"--timeout={patience}s"
        )
        ended = time.monotonic()
        if drained and not self.notes.has_result:
            whole = partial(self._is_whole_without, node)
            await self._until(f"whole without {node}", whole, WHOLE_SECONDS)
        await self._kubectl("uncordon", node)
        waited = time.monotonic() - ended
        self.say(f"{node}: {'drained' if drained else 'REFUSED'} in {ended - began:.0f} s")
        return Drain(node, head, ended - began, drained, waited)

    async def _kubectl(self, *arguments: str) -> bool:
        with (self.folder / "kubectl.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                path_of("kubectl"),
                f"--kubeconfig={self.kubeconfig}",
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            return await process.wait() == 0

    async def _submit(self) -> None:
        body = msgspec.json.encode({"entrypoint": PROGRAM, "submission_id": "work"})
        headers = {"content-type": "application/json"}
        target = f"{NAME}-head-svc:{DASHBOARD_PORT}"
        await self.world.user.proxy(
            SERVICES, self.world.namespace, target, "POST", "/api/jobs/", headers=headers, body=body
        )

    async def _serves(self) -> bool:
        service = await self.world.user.get(RAYSERVICES, self.world.namespace, NAME)
        ready = find_condition(service.status.get("conditions", []), "Ready") or {}
        return ready.get("status") == "True" and await self._is_whole()

    async def _has_ended(self) -> bool:
        if self.workload == "raycluster":
            return self.notes.has_result
        job = await self.world.user.get(RAYJOBS, self.world.namespace, NAME)
        return job.status.get("jobDeploymentStatus") in {"Complete", "Failed"}

    async def _is_whole(self) -> bool:
        return sum(map(_is_ready, await self._ray_pods())) >= 1 + WORKERS

    async def _is_whole_without(self, node: str) -> bool:
        pods = await self._ray_pods()
        left = any(pod.spec.node_name == node for pod in pods)
        return not left and sum(map(_is_ready, pods)) >= 1 + WORKERS

    async def _works_on(self, seconds: float, *, needed: bool = False) -> None:
        wanted = self.notes.count("task") + BUSY

        async def works() -> bool:
            return self.notes.count("task") >= wanted

        await self._until("the driver works", works, seconds, needed=needed)

    async def _ray_pods(self) -> list[Pod]:
        pods = (await self.world.user.list(PODS, self.world.namespace)).items
        return [pod for pod in pods if "ray.io/node-type" in (pod.metadata.labels or {})]

    async def _until(
        self,
        what: str,
        reached: Callable[[], Awaitable[bool]],
        seconds: float,
        *,
        needed: bool = True,
    ) -> None:
        """Wait for something; give the course up if it does not come and is `needed`."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if await reached():
                    return
            except KubeError as error:
                self.say(f"{what}: {error}")
            if time.monotonic() > deadline:
                self.say(f"not after {seconds:.0f} s: {what}")
                if needed:
                    raise SystemExit(f"not after {seconds:.0f} s: {what}; see {self.folder}")
                return
            await asyncio.sleep(1)


def _is_head(pod: Pod) -> bool:
    return (pod.metadata.labels or {}).get("ray.io/node-type") == "head"


def _is_ready(pod: Pod) -> bool:
    ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
    return ready and not pod.metadata.terminating


def requests_of(log: str) -> Requests:
    """What the client has printed."""
    traffic = Traffic()
    for line in log.splitlines():
        traffic.saw_line(line)
    silent, last = 0.0, traffic.seconds[0].at
    for second in traffic.seconds[1:]:
        silent += 0.0 if second.answers else second.at - last
        last = second.at
    failures = traffic.failures
    return Requests(
        answered=sum(answer.count for answer in traffic.answers),
        failed=len(failures),
        silent_seconds=silent,
        slowest=traffic.slowest,
        reasons=sorted({each.partition(" (after")[0] for each in failures})[:5],
    )


@contextmanager
def operator(name: str, kubeconfig: Path) -> Generator[None]:
    """Run Manta, or the operator whose binary this is."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    environment = {"KUBECONFIG": str(kubeconfig), "WATCH_NODES": "true"}
    if name == MANTA:
        flags = ("--metrics-address", addresses[0], "--health-address", addresses[1])
        command = [sys.executable, "-m", "controller", "run", *flags]
    else:
        flags = ("-metrics-addr", addresses[0], "-health-probe-bind-address", addresses[1])
        command = [name, "-use-kubernetes-proxy", "-enable-leader-election=false", *flags]
    with running(command, kubeconfig.with_name("operator.log"), environment):
        yield


MANTA: Final = "Manta"
KUBERAY: Final = "KubeRay"


@asynccontextmanager
async def course(workload: str, name: str, folder: Path) -> AsyncGenerator[Course]:
    """A course with its control plane and its operator."""
    notes = folder / "notes"
    notes.mkdir(mode=0o777)
    label = MANTA if name == MANTA else KUBERAY

    def say(text: str) -> None:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {label}, {workload}: {text}\n")

    say("starting a control plane")
    async with process_nodes(folder, NODES) as on:
        with operator(name, on.plane.kubeconfig):
            yield Course(workload, on, Notes(notes), say)


async def measure(workload: str, name: str, folder: Path) -> Outcome:
    """Play one course."""
    async with course(workload, name, folder) as found:
        return await found.run()


def rows(outcome: Outcome) -> dict[str, str]:
    """The figures of a course, by what they are."""

    def told(drain: Drain) -> str:
        return f"{drain.seconds:.0f} s" if drain.drained else "refused"

    found = {
        "drains of nodes without head": ", ".join(
            told(each) for each in outcome.drains if not each.head
        ),
        "drain of the head's node": ", ".join(told(each) for each in outcome.drains if each.head),
    }
    if work := outcome.work:
        found["the same when the work has ended"] = ", ".join(map(told, outcome.drains_after))
        found |= {
            "drivers begun": str(work.drivers),
            "the sums are right": "yes" if work.sums_right else "NO RESULT",
            "tasks in the result": str(work.tasks),
            "tasks executed again or for nothing": str(work.tasks_repeated),
            "objects computed again": str(work.objects_computed_again),
            "actors that began anew": str(work.actors_restarted),
            "objects of ray.put lost": f"{work.objects_put_lost} of {work.objects_put}",
            "slowest call of an actor, s": f"{work.slowest_call:.1f}",
        }
    if asked := outcome.requests:
        found |= {
            "requests answered": str(asked.answered),
            "requests failed": str(asked.failed),
            "seconds without an answer": f"{asked.silent_seconds:.0f}",
            "slowest request, s": f"{asked.slowest:.1f}",
        }
    return found


def table(workload: str, outcomes: Mapping[str, Outcome]) -> str:
    """The figures of all operators beside each other."""
    columns = {name: rows(each) for name, each in outcomes.items()}
    labels = dict.fromkeys(label for column in columns.values() for label in column)
    lines = [workload.ljust(38) + "".join(name.rjust(20) for name in columns)]
    for label in labels:
        cells = (column.get(label) or "-" for column in columns.values())
        lines.append(label.ljust(38) + "".join(cell.rjust(20) for cell in cells))
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="KUBERAY_OPERATOR names KubeRay's operator, built with `go build` in its "
        "ray-operator.",
    )
    found.add_argument(
        "--workload",
        action="append",
        choices=list(PATIENCE),
        help="may be repeated (default: all)",
    )
    found.add_argument("--logs", type=Path, help="folder that keeps what all programs have logged")
    found.add_argument("-o", "--output", choices=["table", "json"], default="table")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    options = parser().parse_args(arguments)
    if missing := why_missing(*PROGRAMS):
        sys.stderr.write(f"{missing}\n")
        return 2
    configure_logging(level="error")
    binary = os.environ.get("KUBERAY_OPERATOR")
    found: dict[str, dict[str, Outcome]] = {}
    with tempfile.TemporaryDirectory(prefix="manta-drains-") as temporary:
        for workload in options.workload or PATIENCE:
            found[workload] = {}
            for label, name in {MANTA: MANTA, KUBERAY: binary}.items():
                if name:
                    folder = (options.logs or Path(temporary)) / f"{workload}-{label}"
                    folder.mkdir(parents=True)
                    found[workload][label] = asyncio.run(measure(workload, name, folder))
    if options.output == "json":
        sys.stdout.write(json.dumps(_plain(found), indent=2) + "\n")
    else:
        tables = (table(workload, outcomes) for workload, outcomes in found.items())
        sys.stdout.write("\n\n".join(tables) + "\n")
    return 0


def _plain(found: Mapping[str, Mapping[str, Outcome]]) -> dict[str, Any]:
    return {
        workload: {name: msgspec.structs.asdict(each) for name, each in outcomes.items()}
        for workload, outcomes in found.items()
    }


if __name__ == "__main__":
    sys.exit(main())
