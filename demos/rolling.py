"""The demos of workers that are replaced, and of nodes that are drained, while a job runs."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import msgspec

from controller.apimachinery.conditions import parse_rfc3339
from controller.kube.errors import ConfigurationError, KubeError, NotFound
from controller.kube.objects import Pod
from controller.kube.resources import CONFIG_MAPS, NODES, PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.labels import DRAINING_SINCE
from controller.ray.api.pod_state import group_of, is_head
from controller.ray.api.upgrade_strategy import RayClusterUpgradeStrategy
from demos.stage import NAMESPACE, Demo, StepFailed, background
from demos.view import pod_state, pod_words, whole_cluster_words
from devcluster.nodes import NodeSettings

VERSION: Final = "example.dev/version"
"""The label of worker templates that an edit changes."""

_POLL: Final = 2.0  # seconds between two looks at the job
_KILL: Final = 10.0  # seconds from the deletion of a pod to the end of its processes
_JOB: Final = "counter"
_PROGRAM: Final = "python /home/ray/code/counter.py"
_STOP: Final = "touch /tmp/stop-counting"
_BUSY: Final = 20  # tasks after which the job counts as running


class RollingDemo(Demo):
    """The workers of a RayCluster are replaced while a job of real Ray runs on them.

    Workers get a second version while the operator is killed with SIGKILL; a third version is
    reverted half-way. It works only if the job's sums are right, no task ran on a worker after its
    drain deadline, and there were never more workers than the options allow.

    Attributes:
        sizes: replicas of each group.
        draining: when the drain of each worker began, by its key.
        most: how many workers of each group there were at most.
    """

    beside = (CONFIG_MAPS,)
    words: ClassVar = {RAYCLUSTERS: whole_cluster_words, PODS: pod_words}
    seconds = 1800.0
    apart = True

    def __init__(self, manifest: Path) -> None:
        super().__init__(manifest)
        try:
            spec: dict[str, Any] = self.object["spec"]
            groups = spec["workerGroupSpecs"]
            self.sizes = {str(each["groupName"]): int(each.get("replicas", 0)) for each in groups}
            strategy = msgspec.convert(spec.get("upgradeStrategy", {}), RayClusterUpgradeStrategy)
            self.at("v1")
        except (msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{manifest} cannot be played with: the template of each worker group needs a "
                f"label {VERSION} ({error})"
            ) from error
        if strategy.rolling is None:
            raise ConfigurationError(f"{manifest} has no upgradeStrategy of type RollingUpdate")
        if len(self.sizes) < 2 or min(self.sizes.values()) < 2:
            raise ConfigurationError(
                f"{manifest} has fewer than two groups of at least two workers"
            )
        self.options = strategy.rolling
        self.work = Work()
        self.draining: dict[str, datetime] = {}
        self.most: dict[str, int] = {}
        self._counted = ""

    def at(self, version: str) -> dict[str, Any]:
        """Return the specification with this version of all workers."""
        spec = copy.deepcopy(self.object["spec"])
        for group in spec["workerGroupSpecs"]:
            group["template"]["metadata"]["labels"][VERSION] = version
        return spec

    async def play(self) -> None:
        """Let a job run on the workers, disturb it, and compare what it has counted."""
        self.view.on_change.append(self.count_workers)
        async with background(self.tasks, self._follow_job()):
            await self.reach("created -> ready", lambda: self.is_complete("v1"), self.create())
            await self.reach(
                "job submitted -> it counts",
                lambda: self.work.count("task") >= _BUSY,
                self._submit(_JOB, _PROGRAM),
            )
            await self.disturb()
            try:
                async with self.step("job asked to end -> ended"):
                    await self._submit("stop", _STOP)
                    await self._ended(_JOB)
                self.screen.change(f"the job says: {self.work.result}")
            finally:
                self.check()
            async with self.step("deleted -> nothing left"):
                await self.remove()

    async def disturb(self) -> None:
        """Replace the workers, with the operator killed; then take half of a version back."""
        first, *others = self.sizes
        async with self.step("edited -> all are v2"):
            await self._edit("v2")
            await self.view.until(lambda: bool(self.draining and self.takes_work(first, "v2")))
            await self.kill_operator()
            await self.view.until(lambda: self.is_complete("v2"))
        half = (self.sizes[first] + 1) // 2

        def untouched() -> set[str]:
            return {pod.metadata.uid for group in others for pod in self.takes_work(group)}

        before = untouched()
        await self.reach(
            f"edited -> {half} {first} are v3",
            lambda: len(self.takes_work(first, "v3")) >= half,
            self._edit("v3"),
        )
        await self.reach(
            "rolled back -> all are v2", lambda: self.is_complete("v2"), self._edit("v2")
        )
        if lost := before - untouched():
            self.wrong.append(f"{len(lost)} workers were replaced that never were outdated")

    def counts(self) -> Iterator[str]:
        """Yield observations of the job and of the workers."""
        counts = {
            "tasks that ended": self.work.count("task"),
            "calls of actors that ended": self.work.count("call"),
            "workers drained": len(self.draining),
            "ran after a drain deadline": len(self.late()),
        }
        yield from (f"{name:<28}{count:6}" for name, count in counts.items())
        for group, most in self.most.items():
            yield f"{f'workers of {group} at most':<28}{most:6}"

    def late(self) -> list[str]:
        """Return sentences about work on a worker after its drain deadline."""
        limit, seen = timedelta(seconds=self.options.drain_timeout_seconds), self.view.seen[PODS]
        drains = [
            Drain(seen[key].metadata.name, seen[key].status.pod_ip, since + limit)
            for key, since in self.draining.items()
        ]
        return late_work(self.work.records, drains, call_grace=_KILL)

    def check(self) -> None:
        """Record violations; what happens to workers from now on is none."""
        self.view.on_change.remove(self.count_workers)
        self.wrong += self.work.wrong_result()
        self.wrong += self.late()
        for group, size in self.sizes.items():
            allowed = size + self.options.surge_of(size)
            if self.most[group] > allowed:
                self.wrong.append(f"{group} had {self.most[group]} workers, allowed are {allowed}")

    # The workers.

    def workers(self) -> dict[str, Pod]:
        """Return the workers, by their keys."""
        pods: dict[str, Pod] = self.view.objects[PODS]
        return {key: pod for key, pod in pods.items() if not is_head(pod)}

    def takes_work(self, group: str, version: str = "") -> list[Pod]:
        """Return the ready workers of a group that are not draining, of one version or all."""
        return [
            pod
            for key, pod in self.workers().items()
            if group_of(pod) == group
            and version in {"", _version(pod)}
            and self._state(key, pod) == "ready"
        ]

    def is_complete(self, version: str) -> bool:
        """Return whether there are exactly the wanted workers, of this version."""
        return len(self.view.objects[PODS]) == 1 + sum(self.sizes.values()) and all(
            len(self.takes_work(group, version)) == size for group, size in self.sizes.items()
        )

    def counted(self) -> str:
        """Return the numbers of workers of each version that are ready, draining, and neither."""
        groups: dict[str, Counter[str]] = {}
        for key, pod in self.workers().items():
            states = groups.setdefault(group_of(pod), Counter())
            states[f"{_version(pod)} {self._state(key, pod)}"] += 1
        return "; ".join(
            f"{name}: " + ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
            for name, states in sorted(groups.items(), reverse=True)
        )

    def count_workers(self) -> None:
        """Show which workers there are, if that has changed; note the most."""
        for key, pod in self.workers().items():
            since = (pod.metadata.annotations or {}).get(DRAINING_SINCE)
            if since and key not in self.draining:
                self.draining[key] = parse_rfc3339(since)
                self.screen.change(f"pod {pod.metadata.name}: draining since {since}")
        for group, count in Counter(map(group_of, self.workers().values())).items():
            self.most[group] = max(count, self.most.get(group, 0))
        if (counted := self.counted()) != self._counted:
            self._counted = counted
            tasks, calls = self.work.count("task"), self.work.count("call")
            self.screen.change(f"{counted or 'no workers'}; {tasks} tasks, {calls} calls ended")

    def _state(self, key: str, pod: Pod) -> str:
        if pod.metadata.terminating:
            return "ending"
        if key in self.draining:
            return "draining"
        return "ready" if pod_state(pod) == "Ready" else "starting"

    async def _edit(self, version: str) -> None:
        self.screen.change(f"edited: {version}; {self.counted()}")
        await self.set("/spec", self.at(version))

    # The job.

    async def _submit(self, name: str, entrypoint: str) -> None:
        body = {"entrypoint": entrypoint, "submission_id": name}
        await self.ask_head("POST", "/api/jobs/", body)

    async def _ended(self, name: str) -> None:
        """Wait for the end of a job and for the last of its output.

        Raises:
            StepFailed: it did not succeed.
        """
        job: dict[str, Any] = {}
        while not job.get("end_time"):
            await asyncio.sleep(_POLL)
            job = await self._got(f"/api/jobs/{name}")
        await self._read_log()
        if job["status"] != "SUCCEEDED":
            raise StepFailed(f"the job ended as {job['status']}: {job.get('message')}")

    async def _follow_job(self) -> None:
        while True:
            await asyncio.sleep(_POLL)
            await self._read_log()

    async def _read_log(self) -> None:
        if log := (await self._got(f"/api/jobs/{_JOB}/logs")).get("logs"):
            self.work.saw_log(log)
            self.view.refresh()

    async def _got(self, path: str) -> dict[str, Any]:
        """Return a response in JSON; empty as long as there is none."""
        try:
            return await self.ask_head("GET", path)
        except (KubeError, StepFailed):
            return {}


def _version(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(VERSION, "")


class DrainDemo(RollingDemo):
    """Nodes are drained one after the other while a job runs.

    Each node is cordoned, its workers are evicted, and it comes back when the cluster is whole
    elsewhere; a budget keeps the head while the job runs. It works only if the job's sums are
    right, and no task ran on a worker after its grace period.
    """

    nodes = NodeSettings(nodes=3, scheduling=True)

    def __init__(self, manifest: Path) -> None:
        super().__init__(manifest)
        grace = {"terminationGracePeriodSeconds": self.options.drain_timeout_seconds}
        self.object["spec"] |= {"gracefulTerminationOptions": grace, "disruptionBudgets": {}}

    async def disturb(self) -> None:
        """Drain the nodes on which workers run."""
        for name in sorted({pod.spec.node_name for pod in self.workers().values()}):
            await self.reach(
                f"node {name} drained -> whole",
                lambda name=name: self._is_whole_without(name),
                self._drain(name),
            )
            await self._cordon(name, on=False)

    async def _drain(self, node: str) -> None:
        """Do what `kubectl drain` does to the workers of a node."""
        await self._cordon(node, on=True)
        for key, pod in self.workers().items():
            if pod.spec.node_name != node or self._state(key, pod) != "ready":
                continue
            self.screen.change(f"evicted: {pod.metadata.name}")
            self.draining[key] = datetime.now(UTC)
            meta = {"name": pod.metadata.name, "namespace": NAMESPACE}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
            path = PODS.path(NAMESPACE, pod.metadata.name, "eviction")
            try:
                await self.user.request_json("POST", path, body=body)
            except NotFound:
                continue

    async def _cordon(self, node: str, *, on: bool) -> None:
        await self.user.merge_patch(NODES, "", node, {"spec": {"unschedulable": on or None}})

    def _is_whole_without(self, node: str) -> bool:
        """Return whether all workers are ready elsewhere, and none of the node is left."""
        left = any(pod.spec.node_name == node for pod in self.workers().values())
        return not left and self.is_complete("v1")


class Record(msgspec.Struct, array_like=True, frozen=True):
    """One task, or one call of an actor, that has ended. Times are seconds since 1970."""

    kind: Literal["task", "call"]
    number: int
    address: str
    began: float
    ended: float


class WorkResult(msgspec.Struct, frozen=True):
    """The last line of the job: how many tasks and calls were begun, and sums of their results."""

    begun: dict[str, int]
    sums: dict[str, int]


@dataclass(slots=True)
class Work:
    """All that the job has printed: what has ended, and the sums when it has."""

    records: list[Record] = field(default_factory=list[Record])
    result: WorkResult | None = None
    _read: int = 0

    def saw_log(self, log: str) -> None:
        """Read the new part of the log; ignore lines that are not the job's."""
        whole = log[self._read :].rpartition("\n")[0]
        self._read += len(whole)
        for line in whole.splitlines():
            with suppress(msgspec.DecodeError):
                if line.startswith("["):
                    self.records.append(msgspec.json.decode(line, type=Record))
                else:
                    self.result = msgspec.json.decode(line, type=WorkResult)

    def count(self, kind: str) -> int:
        """Return the number of tasks or calls that have ended."""
        return sum(record.kind == kind for record in self.records)

    def wrong_result(self) -> list[str]:
        """Return sentences about wrong or missing sums."""
        if self.result is None:
            return ["the job printed no result"]
        tasks, calls = self.result.begun["task"], self.result.begun["call"]
        right = {"task": tasks, "call": sum(number * number for number in range(calls))}
        wrong = [
            f"the sum of each {kind} is {self.result.sums[kind]}, not {value}"
            for kind, value in right.items()
            if self.result.sums[kind] != value
        ]
        for kind, begun in self.result.begun.items():
            numbers = sorted(record.number for record in self.records if record.kind == kind)
            if numbers != list(range(begun)):
                wrong.append(f"of {begun} {kind}s {len(numbers)} were told, or some of them twice")
        return wrong


class Drain(msgspec.Struct, frozen=True):
    """A worker that was drained; no other has had its address."""

    pod: str
    address: str
    deadline: datetime


def late_work(
    records: Iterable[Record], drains: Iterable[Drain], *, call_grace: float
) -> list[str]:
    """Return sentences about tasks and calls that ran on a worker after its drain deadline.

    An actor never ends by itself: it may go on for `call_grace` seconds, until the pod that is
    deleted at the deadline is killed.
    """
    deadlines = {drain.address: drain for drain in drains}
    grace = {"task": 0.0, "call": call_grace}
    return [
        f"{record.kind} {record.number} ran on {drain.pod} "
        f"{record.ended - drain.deadline.timestamp():.1f} s after its drain deadline"
        for record in records
        if (drain := deadlines.get(record.address))
        and record.ended > drain.deadline.timestamp() + grace[record.kind]
    ]
