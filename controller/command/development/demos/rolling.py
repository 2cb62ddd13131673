"""`manta demo --kind rolling`: the workers of a RayCluster are replaced while a job runs on them.

Pods are processes of this machine, with real Ray. Workers get a second version while the operator
is killed with SIGKILL; a third version is reverted half-way. The exit status is 0 only if the job's
sums are right, no task ran on a worker after its drain deadline, there were never more workers than
the options allow, and nothing was left behind.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from controller.command.development.demos.cluster import NAMESPACE, cluster_informers
from controller.command.development.demos.real_ray import OperatorProcess, demo_with_real_ray
from controller.command.development.demos.rolling_work import (
    VERSION,
    Drain,
    RollingManifest,
    Work,
    last_task,
    late_work,
    read_manifest,
)
from controller.command.development.demos.steps import DemoSummary, Step, StepFailed, background
from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.development.view import RollingView
from controller.devcluster.nodes import NodeSettings
from controller.kube.errors import KubeError
from controller.kube.resources import CONFIG_MAPS, SERVICES
from controller.ray.api import RAYCLUSTERS, custom_resource_definitions
from controller.ray.api.names import DASHBOARD_PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from controller.command.development.demos.real_ray import MachineOptions
    from controller.command.development.process_node import ProcessNode
    from controller.command.development.view import Screen
    from controller.kube.client import Client


_SECONDS: Final = 1800.0  # for each step: a small machine starts Ray slowly
_DOWN: Final = 3.0  # seconds that the operator is dead
_POLL: Final = 2.0  # seconds between two looks at the job
_KILL: Final = 10.0  # seconds from the deletion of a pod to the end of its processes
_JOB: Final = "counter"
_PROGRAM: Final = "python /home/ray/code/counter.py"
_STOP: Final = "touch /tmp/stop-counting"
_BUSY: Final = 20  # tasks after which the job counts as running


@dataclass(slots=True)
class RollingDemoSummary(DemoSummary):
    """Observations of the job, of the workers and of this machine."""

    work: Work = field(default_factory=Work)
    drains: list[Drain] = field(default_factory=list[Drain])
    most: dict[str, int] = field(default_factory=dict[str, int])
    fewest: dict[str, int] = field(default_factory=dict[str, int])

    def text(self) -> str:
        """Return the summary as plain lines."""
        return "\n".join([*self.steps.lines(), *self._counts(), *self.verdict()])

    def _counts(self) -> Iterator[str]:
        """Yield the counts, for the summary."""
        late = len(late_work(self.work.records, self.drains, call_grace=_KILL))
        counts = {
            "tasks that ended": self.work.count("task"),
            "calls of actors that ended": self.work.count("call"),
            "workers drained": len(self.drains),
            "ran after a drain deadline": late,
        }
        yield from (f"{name:<28}{count:6}" for name, count in counts.items())
        for group, most in self.most.items():
            few = self.fewest.get(group, 0)
            yield f"{f'workers of {group} at most':<28}{most:6}, that took work at least {few}"
        for drain in self.drains:
            last = last_task(self.work.records, drain)
            yield f"{drain.pod}: last task began {last:.1f} s after its drain did"


async def rolling_demo(manifest: Path, machine: MachineOptions) -> int:
    """Run the demo and print its summary; returns the exit status.

    Args:
        manifest: a RayCluster with `RollingUpdate` and the program of the example's job.
        machine: the options of this machine.

    Raises:
        ConfigurationError: the manifest cannot be played with, or Ray cannot be installed.
    """
    documents = read_manifest(manifest)
    summary = RollingDemoSummary()
    return await demo_with_real_ray(
        partial(play, documents, summary, RollingPlay), summary, machine
    )


async def play(
    manifest: RollingManifest,
    summary: RollingDemoSummary,
    steps: type[RollingPlay],
    node: ProcessNode,
    screen: Screen,
) -> None:
    """Start everything, run the steps, stop everything."""
    work = summary.work
    view = RollingView(
        manifest.name,
        screen,
        version=VERSION,
        progress=lambda: f"{work.count('task')} tasks, {work.count('call')} calls ended",
    )
    crds = custom_resource_definitions()
    async with (
        embedded_cluster(port=0, crds=crds, nodes=steps.nodes, process_node=node) as cluster,
        asyncio.TaskGroup() as tasks,
    ):
        operator = OperatorProcess(cluster, node)
        user = cluster.client("demo-user")
        job = _Job(user, f"{manifest.name}-head-svc:{DASHBOARD_PORT}", work, view.refresh)
        informers = cluster_informers(user, view)
        follow = (*(one.run() for one in informers), job.follow())
        async with background(tasks, *follow), aclosing(operator):
            await steps(manifest, screen, summary, view, user, operator, job).run()


@dataclass(slots=True)
class RollingPlay:
    """The steps of the demo.

    Attributes:
        nodes: the nodes of the cluster.
    """

    nodes: ClassVar[NodeSettings] = NodeSettings()

    manifest: RollingManifest
    screen: Screen
    summary: RollingDemoSummary
    view: RollingView
    user: Client
    operator: OperatorProcess
    job: _Job

    async def run(self) -> None:
        """Run all steps, and note what went wrong."""
        await self.create()
        await self.begin_job()
        await self.work()
        try:
            await self.end_job()
        finally:
            self.check()
        await self.delete()

    async def work(self) -> None:
        """Replace the workers while the job runs on them."""
        await self.upgrade("v2")
        await self.roll_back("v3", "v2")

    def step(self, name: str) -> Step:
        """Return a step of the demo."""
        return Step(name, _SECONDS, self.screen, self.summary.steps)

    async def create(self) -> None:
        """Create the cluster and what it needs."""
        async with self.step("created -> ready"):
            self.screen.change(f"operator: process {await self.operator.start()}")
            for document in self.manifest.others:
                await self.user.create(CONFIG_MAPS, NAMESPACE, document)
            await self.user.create(RAYCLUSTERS, NAMESPACE, self.manifest.cluster)
            await self.view.until(lambda _: self.is_complete("v1"))
        self.view.count_fewest()

    async def begin_job(self) -> None:
        """Let the job run on the workers."""
        async with self.step("job submitted -> it counts"):
            await self.job.submit(_JOB, _PROGRAM)
            await self.view.until(lambda _: self.summary.work.count("task") >= _BUSY)

    async def upgrade(self, version: str) -> None:
        """Replace all workers, and kill the operator in the middle of it."""
        async with self.step(f"edited -> all are {version}"):
            await self._edit(version)
            first = next(iter(self.manifest.sizes))
            await self.view.until(lambda _: self._is_under_way(first, version))
            self.screen.change(f"operator killed: exit status {await self.operator.kill()}")
            await asyncio.sleep(_DOWN)
            self.screen.change(f"operator: process {await self.operator.start()}")
            await self.view.until(lambda _: self.is_complete(version))

    async def roll_back(self, version: str, former: str) -> None:
        """Take a version back when some of the first group have it."""
        first, *others = self.manifest.sizes
        half = (self.manifest.sizes[first] + 1) // 2
        untouched = {self._uid(pod) for group in others for pod in self.view.takes_work(group)}
        async with self.step(f"edited -> {half} {first} are {version}"):
            await self._edit(version)
            await self.view.until(lambda _: len(self.view.takes_work(first, version)) >= half)
        async with self.step(f"rolled back -> all are {former}"):
            await self._edit(former)
            await self.view.until(lambda _: self.is_complete(former))
        kept = {self._uid(pod) for group in others for pod in self.view.takes_work(group)}
        if kept != untouched:
            self.summary.wrong.append(
                f"{len(untouched - kept)} workers were replaced that never were outdated"
            )

    async def end_job(self) -> None:
        """Tell the job to end."""
        async with self.step("job asked to end -> ended"):
            await self.job.submit("stop", _STOP)
            await self.job.ended(_JOB)
        self.screen.change(f"the job says: {self.summary.work.result}")

    async def delete(self) -> None:
        """Delete the cluster."""
        async with self.step("deleted -> nothing left"):
            await self.user.delete(RAYCLUSTERS, NAMESPACE, self.manifest.name)
            await self.view.until(lambda v: v.cluster is None and not v.pods)

    def check(self) -> None:
        """Record violations."""
        summary, options = self.summary, self.manifest.options
        summary.most, summary.fewest = dict(self.view.most), dict(self.view.fewest)
        limit = timedelta(seconds=options.drain_timeout_seconds)
        summary.drains = [
            Drain(pod.metadata.name, pod.status.pod_ip, since, since + limit)
            for key, since in self.view.draining.items()
            if (pod := self.view.seen.get(key)) is not None
        ]
        summary.wrong += summary.work.wrong_result()
        summary.wrong += late_work(summary.work.records, summary.drains, call_grace=_KILL)
        for group, size in self.manifest.sizes.items():
            allowed = size + options.surge_of(size)
            if self.view.most[group] > allowed:
                summary.wrong.append(
                    f"{group} had {self.view.most[group]} workers, allowed are {allowed}"
                )

    async def _edit(self, version: str) -> None:
        """Replace the specification."""
        self.screen.change(f"edited: {version}; {self.view.counts()}")
        operation = {"op": "replace", "path": "/spec", "value": self.manifest.at(version)}
        await self.user.json_patch(RAYCLUSTERS, NAMESPACE, self.manifest.name, [operation])

    def _is_under_way(self, group: str, version: str) -> bool:
        """Return whether a worker of this version exists and one of the former remains."""
        return bool(self.view.draining and self.view.takes_work(group, version))

    def is_complete(self, version: str) -> bool:
        """Return whether there are exactly the wanted workers, of this version."""
        sizes = self.manifest.sizes
        return len(self.view.pods) == 1 + sum(sizes.values()) and all(
            len(self.view.takes_work(group, version)) == size for group, size in sizes.items()
        )

    @staticmethod
    def _uid(pod: Any) -> str:
        return pod.metadata.uid


class _Job:
    """The job, through the API server.

    Args:
        user: who asks.
        dashboard: `service:port`.
        work: where what it has printed is noted.
        on_read: called when something was noted.
    """

    def __init__(
        self, user: Client, dashboard: str, work: Work, on_read: Callable[[], None]
    ) -> None:
        self._user = user
        self._dashboard = dashboard
        self._work = work
        self._on_read = on_read

    async def submit(self, name: str, entrypoint: str) -> None:
        """Submit a job."""
        body = {"entrypoint": entrypoint, "submission_id": name}
        await self._ask("POST", "/api/jobs/", msgspec.json.encode(body))

    async def ended(self, name: str) -> None:
        """Wait for the end of a job and for the last of its output.

        Raises:
            StepFailed: it did not succeed.
        """
        job: dict[str, Any] = {}
        while not job.get("end_time"):
            await asyncio.sleep(_POLL)
            job = await self._got(f"/api/jobs/{name}")
        await self._read(name)
        if job["status"] != "SUCCEEDED":
            raise StepFailed(f"the job ended as {job['status']}: {job.get('message')}")

    async def follow(self) -> None:
        """Read what the job prints, until cancelled."""
        while True:
            await asyncio.sleep(_POLL)
            await self._read(_JOB)

    async def _read(self, name: str) -> None:
        log = (await self._got(f"/api/jobs/{name}/logs")).get("logs")
        if log:
            self._work.saw_log(log)
            self._on_read()

    async def _got(self, path: str) -> dict[str, Any]:
        """Return a response in JSON; empty as long as there is none."""
        try:
            body = await self._ask("GET", path, None)
            return msgspec.json.decode(body, type=dict[str, Any])
        except (KubeError, msgspec.DecodeError):
            return {}

    async def _ask(self, method: str, path: str, body: bytes | None) -> bytes:
        headers = {"content-type": "application/json"}
        answer = await self._user.proxy(
            SERVICES,
            NAMESPACE,
            self._dashboard,
            method,
            path,
            headers=headers,
            body=body,
            timeout=120.0,
        )
        return answer.body
