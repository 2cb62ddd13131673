"""`manta demo --kind rayjob`: a job computes something with real Ray.

Its pods are processes of this machine. The example fails at first on purpose, is retried on a
fresh cluster and succeeds. The exit status is 0 only if it did, and if nothing was left behind.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.command.development.demos.real_ray import demo_with_real_ray
from controller.command.development.demos.steps import DemoSummary, Step, follow_log, informer_for
from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.development.view import JobView, Screen, in_short
from controller.command.manifests import load
from controller.command.run.operator import operator_for
from controller.devcluster.nodes import NodeSettings
from controller.kube.errors import ConfigurationError, NotFound
from controller.kube.resources import CLAIMS, CONFIG_MAPS, PODS, SECRETS
from controller.ray.api import RAYCLUSTERS, RAYJOBS, custom_resource_definitions
from controller.ray.api.pod_state import SUBMISSION_ID, container_with
from controller.runtime.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from controller.command.development.demos.real_ray import MachineOptions
    from controller.command.development.process_node import ProcessNode
    from controller.kube.client import Client
    from controller.kube.objects import Pod
    from controller.kube.resources import Resource
    from controller.kube.transport import Transport
    from informers import SharedInformer


# The output of a job, from the logs of the pods that submit it.

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SIDECAR = "ray-job-submitter"


class JobLog:
    """Follows the log of every submitter of a job.

    Args:
        server: the API server.
        name: name of the RayJob, and so of its submitter Job.
        saw_line: called with each line.
        tasks: where the followers run.
    """

    def __init__(
        self,
        server: Transport,
        name: str,
        saw_line: Callable[[str], None],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._server = server
        self._name = name
        self._saw_line = saw_line
        self._tasks = tasks
        self._followed: set[tuple[str, int]] = set()
        self._running: set[asyncio.Task[None]] = set()

    def saw_pod(self, key: str, pod: Pod | None) -> None:
        """Follow the log of a submitter that has started, once for each start."""
        del key
        if pod is None:
            return
        container = self._submitter(pod)
        for status in pod.status.container_statuses:
            started = status.state.running or status.state.terminated
            start = (pod.metadata.uid, status.restart_count)
            if status.name == container and started and start not in self._followed:
                self._followed.add(start)
                task = self._tasks.create_task(self._follow(pod, container))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    def close(self) -> None:
        """Stop following."""
        for task in self._running:
            task.cancel()

    def _submitter(self, pod: Pod) -> str:
        """Name of the container whose output is the job's; empty if this pod has none."""
        found = container_with(pod.spec.containers, SUBMISSION_ID)
        name = found.name if found is not None else ""
        is_jobs = (pod.metadata.labels or {}).get("job-name") == self._name
        return name if is_jobs or name == _SIDECAR else ""

    async def _follow(self, pod: Pod, container: str) -> None:
        async for line in follow_log(self._server, pod, container):
            self._saw_line(_COLOURS.sub("", line).rstrip())


Json = dict[str, Any]

NAMESPACE = "default"
_RESOURCES: dict[str, Resource[Any]] = {
    resource.kind: resource for resource in (RAYJOBS, CONFIG_MAPS, SECRETS, CLAIMS)
}
_JOB_SECONDS = 900.0
_CLEANING_SECONDS = 120.0  # beyond the job's own time to live


@dataclass(slots=True)
class JobDemoSummary(DemoSummary):
    """The attempts of the job, and what they made."""

    attempts: list[str] = field(default_factory=list[str])
    lines: int = 0
    clusters: int = 0
    pods: int = 0
    removed: bool = False

    @property
    def worked(self) -> bool:
        """True if the demo succeeded."""
        return self.removed and not (self.failed or self.left_behind)

    def text(self) -> str:
        """Return the summary as plain lines."""
        lines = [*self.attempts, *self.steps.lines()]
        lines.append(f"{'lines that the job printed':<28}{self.lines:6}")
        gone = ", all gone" if self.removed else ""
        lines.append(f"{'clusters made':<28}{self.clusters:6}{gone}")
        lines.append(f"{'pods made':<28}{self.pods:6}{gone}")
        return "\n".join([*lines, *self.verdict()])


async def job_demo(manifest: Path, machine: MachineOptions) -> int:
    """Run the demo and print its summary; returns the exit status.

    Args:
        manifest: a RayJob, and what it needs.
        machine: the options of this machine.

    Raises:
        ConfigurationError: the manifest holds anything but one RayJob and what it needs, or
            Ray cannot be installed; the message names a remedy.
    """
    documents = load(manifest)
    _check(documents, manifest)
    summary = JobDemoSummary()
    return await demo_with_real_ray(
        lambda node, screen: _play(documents, node, screen, summary), summary, machine
    )


def _check(documents: list[Json], manifest: Path) -> None:
    """Refuse manifests that the demo cannot run.

    Raises:
        ConfigurationError: it cannot.
    """
    kinds = [str(document.get("kind")) for document in documents]
    if kinds.count(RAYJOBS.kind) != 1:
        raise ConfigurationError(
            f"{manifest} holds {kinds.count(RAYJOBS.kind)} RayJobs; it must hold one"
        )
    unknown = sorted(set(kinds) - _RESOURCES.keys())
    if unknown:
        raise ConfigurationError(
            f"{manifest} holds a {unknown[0]}; beside a RayJob the demo takes only "
            f"{', '.join(kind for kind in _RESOURCES if kind != RAYJOBS.kind)}"
        )
    for document in documents:
        meta: Json = document.get("metadata") or {}
        if not meta.get("name"):
            raise ConfigurationError(f"{manifest} holds a {document['kind']} without metadata.name")


async def _play(
    documents: list[Json], node: ProcessNode, screen: Screen, summary: JobDemoSummary
) -> None:
    """Start everything, watch the job to its end, stop everything."""
    job = next(document for document in documents if document["kind"] == RAYJOBS.kind)
    view = JobView(str(job["metadata"]["name"]), screen)
    settings = Settings(metrics_address="", health_address="")
    async with (
        embedded_cluster(
            port=0, crds=custom_resource_definitions(), nodes=NodeSettings(), process_node=node
        ) as cluster,
        operator_for(cluster.credentials(), settings, user_agent="manta-operator") as operator,
        asyncio.TaskGroup() as tasks,
    ):
        user = cluster.client("demo-user")
        log = JobLog(cluster.server, view.name, view.saw_line, tasks)
        stop = asyncio.Event()
        running = tasks.create_task(operator.run(stop))
        watching = [tasks.create_task(one.run()) for one in _informers(user, view, log)]
        try:
            await _steps(user, documents, view, screen, summary)
        finally:
            _record_progress(view, summary)
        stop.set()
        await running
        log.close()
        for task in watching:
            task.cancel()


async def _steps(
    user: Client, documents: list[Json], view: JobView, screen: Screen, summary: JobDemoSummary
) -> None:
    def step(name: str, limit: float) -> Step:
        return Step(name, limit, screen, summary.steps)

    async with step("created -> ended", _JOB_SECONDS):
        for document in documents:
            await user.create(_RESOURCES[document["kind"]], NAMESPACE, document)
        await view.until(lambda v: v.has_ended)
    _record_progress(view, summary)
    spec: Json = view.job.spec if view.job else {}
    if view.deployment_status != "Complete":
        why = in_short(str(view.status.get("message", "")))
        summary.failed = f"the job ended as {view.deployment_status}: {why}"
    elif spec.get("shutdownAfterJobFinishes"):
        wait = float(spec.get("ttlSecondsAfterFinished") or 0)
        async with step("ended -> cluster gone", wait + _CLEANING_SECONDS):
            await view.until(lambda v: not v.clusters)
    async with step("deleted -> nothing left", _CLEANING_SECONDS):
        for document in documents:
            await _delete(user, document)
        await view.until(lambda v: not (v.job or v.clusters or v.pods))
    summary.removed = True


async def _delete(user: Client, document: Json) -> None:
    try:
        resource = _RESOURCES[document["kind"]]
        await user.delete(resource, NAMESPACE, str(document["metadata"]["name"]))
    except NotFound:
        pass  # its own deletion rules have removed it


def _record_progress(view: JobView, summary: JobDemoSummary) -> None:
    """Record what is known of the job, which may soon be deleted."""
    summary.attempts = [attempt.text() for attempt in view.attempts] or summary.attempts
    summary.lines, summary.clusters = view.lines, len(view.clusters_seen)
    summary.pods = len(view.pods_seen)


def _informers(user: Client, view: JobView, log: JobLog) -> Iterator[SharedInformer[Any]]:
    yield informer_for(user, RAYJOBS, view.saw_job)
    yield informer_for(user, RAYCLUSTERS, view.saw_cluster)
    yield informer_for(user, PODS, view.saw_pod, log.saw_pod)
