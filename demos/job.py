"""The demo of a RayJob that fails at first, is retried on a fresh cluster and succeeds."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

from controller.apimachinery.conditions import time_of
from controller.apimachinery.custom_object import mappings, status_of
from controller.kube.errors import NotFound
from controller.kube.objects import Pod
from controller.kube.resources import CLAIMS, CONFIG_MAPS, PODS, SECRETS
from controller.ray.api import RAYCLUSTERS, RAYJOBS
from controller.ray.api.pod_state import SUBMISSION_ID, container_with
from controller.ray.api.rayjob import RayJob
from demos.stage import NAMESPACE, Demo
from demos.view import cluster_words, pod_words

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_SIDECAR: Final = "ray-job-submitter"
_CLEANING: Final = 120.0  # seconds beyond the job's own time to live
_ENDED: Final = frozenset({"Complete", "Failed", "ValidationFailed"})


def job_words(job: RayJob) -> dict[str, str]:
    """Return the state of a RayJob, and the result of each attempt."""
    status = status_of(job)
    state = status.get("jobDeploymentStatus"), status.get("jobStatus"), status.get("reason")
    parts = (state[0], state[1] and f"Ray says {state[1]}", state[2])
    return {f"RayJob {job.metadata.name}": ", ".join(filter(None, parts)) or "new"} | {
        f"attempt {each.get('number', 0)} on {each.get('rayClusterName', '?')}": _result(each)
        for each in mappings(status.get("attempts"))
    }


def _result(attempt: dict[str, Any]) -> str:
    if not attempt.get("result"):
        return "under way"
    began, ended = time_of(attempt.get("startTime")), time_of(attempt.get("endTime"))
    took = f" after {(ended - began).total_seconds():.0f} s" if began and ended else ""
    reason = f" ({attempt['reason']})" if attempt.get("reason") else ""
    why = f": {in_short(attempt['message'])}" if attempt.get("message") else ""
    return f"{attempt['result']}{reason}{took}{why}"


def in_short(message: str) -> str:
    """Return the first line of a message, without Ray's announcement of the log that follows it."""
    return message.partition("\n")[0].partition(", last available logs")[0]


class JobDemo(Demo):
    """A job computes something with real Ray; the example fails at first on purpose."""

    kind = RAYJOBS
    beside = (CONFIG_MAPS, SECRETS, CLAIMS)
    words: ClassVar = {RAYJOBS: job_words, RAYCLUSTERS: cluster_words, PODS: pod_words}

    def __init__(self, manifest: Path) -> None:
        super().__init__(manifest)
        self._lines = 0
        self._followed: set[tuple[str, int]] = set()
        self._following: list[asyncio.Task[None]] = []

    async def play(self) -> None:
        """Watch the job to its end."""
        self.view.on_change.append(self._follow_submitters)
        await self.reach("created -> ended", lambda: self._state() in _ENDED, self.create())
        job, spec = self.view.one(RAYJOBS), self.object["spec"]
        assert job is not None
        if self._state() != "Complete":
            why = in_short(str(status_of(job).get("message", "")))
            self.wrong.append(f"the job ended as {self._state()}: {why}")
        elif spec.get("shutdownAfterJobFinishes"):
            await self.reach(
                "ended -> cluster gone",
                lambda: not self.view.objects[RAYCLUSTERS],
                seconds=float(spec.get("ttlSecondsAfterFinished") or 0) + _CLEANING,
            )
        async with self.step("deleted -> nothing left", _CLEANING):
            for each in self.others:
                resource = self.resources[each["kind"]]
                with suppress(NotFound):
                    await self.user.delete(resource, NAMESPACE, each["metadata"]["name"])
            await self.remove()
        for each in self._following:
            each.cancel()

    def counts(self) -> Iterator[str]:
        """Yield the attempts of the job, and what they made."""
        if job := next(iter(self.view.seen[RAYJOBS].values()), None):
            yield from (f"{name}: {said}" for name, said in list(job_words(job).items())[1:])
        yield f"{'lines that the job printed':<28}{self._lines:6}"
        for what, resource in (("clusters made", RAYCLUSTERS), ("pods made", PODS)):
            seen, left = self.view.seen[resource], self.view.objects[resource]
            yield f"{what:<28}{len(seen):6}{', all gone' if seen and not left else ''}"

    def _state(self) -> str:
        job = self.view.one(RAYJOBS)
        return str(status_of(job).get("jobDeploymentStatus", "")) if job else ""

    def _follow_submitters(self) -> None:
        """Follow the log of each submitter that has started, once for each start."""
        for pod in self.view.objects[PODS].values():
            container = self._submitter(pod)
            for status in pod.status.container_statuses:
                started = status.state.running or status.state.terminated
                start = (pod.metadata.uid, status.restart_count)
                if status.name == container and started and start not in self._followed:
                    self._followed.add(start)
                    self._following.append(self.tasks.create_task(self._follow(pod, container)))

    def _submitter(self, pod: Pod) -> str:
        """Name of the container whose output is the job's; empty if this pod has none."""
        found = container_with(pod.spec.containers, SUBMISSION_ID)
        name = found.name if found is not None else ""
        is_jobs = (pod.metadata.labels or {}).get("job-name") == self.name
        return name if is_jobs or name == _SIDECAR else ""

    async def _follow(self, pod: Pod, container: str) -> None:
        async for line in self.follow_log(pod, container):
            self._lines += 1
            self.view.show(f"| {_COLOURS.sub('', line).rstrip()}")
