"""The demos of RayClusters that grow and shrink, by hand and by Ray's own autoscaler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from controller.apimachinery.custom_object import dig, mapping, mappings
from controller.command.development.demos.stage import OPERATOR, Demo
from controller.command.development.demos.view import pod_state, pod_words, whole_cluster_words
from controller.devcluster.apiserver import StoredEvent
from controller.devcluster.nodes import NodeSettings
from controller.kube.errors import ConfigurationError
from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.pod_state import is_head

_JOB = (
    "import ray, time; ray.init(); work = ray.remote(num_cpus=1)(lambda: time.sleep(5)); "
    "ray.get([work.remote() for _ in range({count})])"
)


class ScalingDemo(Demo):
    """A RayCluster with a worker group."""

    words: ClassVar = {RAYCLUSTERS: whole_cluster_words, PODS: pod_words}

    def __init__(self, manifest: Path) -> None:
        super().__init__(manifest)
        self.spec = mapping(self.object.get("spec"))
        groups = mappings(self.spec.get("workerGroupSpecs"))
        if not groups:
            raise ConfigurationError(f"{manifest} holds no RayCluster with a worker group to scale")
        self.group = groups[0]

    def is_ready(self) -> bool:
        """Return whether the cluster's state is `ready`."""
        return dig(getattr(self.view.one(RAYCLUSTERS), "status", None), "state") == "ready"

    def workers(self) -> list[Pod]:
        """Return the worker pods that are not terminating."""
        pods = self.view.objects[PODS].values()
        return [pod for pod in pods if not (is_head(pod) or pod.metadata.terminating)]

    def has_workers(self, count: int) -> bool:
        """Return whether so many workers are ready."""
        return sum(pod_state(pod) == "Ready" for pod in self.workers()) == count


class ClusterDemo(ScalingDemo):
    """A RayCluster becomes ready, grows, shrinks and is deleted, on a simulated node.

    It works only if no surplus pod was ever created.
    """

    pods = "simulated"
    seconds = 30.0
    nodes = NodeSettings(start_delay=0.3, ready_delay=0.4, termination_delay=0.3)

    def __init__(self, manifest: Path) -> None:
        super().__init__(manifest)
        self._made = 0
        self._most = 0
        self._writes: Counter[str] = Counter()

    async def play(self) -> None:
        """Scale the first group up, then below its size in the manifest."""
        start = int(self.group.get("replicas", 0))
        more, fewer = start + 3, max(start - 1, 0)
        self.cluster.server.on_write.append(self._count)
        await self.reach("created -> ready", self.is_ready, self.create())
        await self.reach(
            f"scaled {start} -> {more} workers",
            lambda: self.has_workers(more) and self.view.is_true(RAYCLUSTERS, "Ready"),
            self._scale(more),
        )
        await self.reach(
            f"scaled {more} -> {fewer} workers",
            lambda: len(self.view.objects[PODS]) == 1 + fewer,
            self._scale(fewer),
        )
        async with self.step("deleted -> nothing left"):
            await self.remove()
        for (agent, verb, what), count in self.cluster.server.requests_by_user_agent.items():
            if agent.startswith(OPERATOR) and verb not in {"get", "list", "watch"}:
                self._writes[f"{verb} {what}"] += count
        self._most = 1 + more
        if self._made != self._most:
            self.wrong.append(f"{self._made} pods were created, {self._most} were asked for")

    def counts(self) -> Iterator[str]:
        """Yield the number of writes by verb and resource, and that of surplus pods."""
        if not self._most:
            return
        total = sum(self._writes.values())
        yield f"{'writes made':<28}{total:6}"
        yield from (f"  {name:<26}{count:6}" for name, count in sorted(self._writes.items()))
        yield f"{'writes per object':<28}{total / (self._made + 1):6.2f}"
        yield f"surplus pods: {self._made - self._most}"

    async def _scale(self, replicas: int) -> None:
        await self.set("/spec/workerGroupSpecs/0/replicas", replicas)

    def _count(self, event: StoredEvent) -> None:
        self._made += event.table == "pods" and event.previous is None


class AutoscalingDemo(ScalingDemo):
    """Ray's own autoscaler adds and removes workers of real Ray.

    A job requests as many processors as the first group may have workers; after its end the idle
    workers are removed.
    """

    def __init__(self, manifest: Path) -> None:
        super().__init__(manifest)
        most = self.group.get("maxReplicas")
        if self.spec.get("enableInTreeAutoscaling") is not True or not isinstance(most, int):
            raise ConfigurationError(
                f"{manifest} is not one RayCluster with enableInTreeAutoscaling and maxReplicas"
            )
        self._most = most

    async def play(self) -> None:
        """Let a job ask for workers, and wait until all of them are gone again."""
        most = self._most
        await self.reach("created -> ready", self.is_ready, self.create())
        job = {"entrypoint": f'python -c "{_JOB.format(count=most)}"'}
        await self.reach(
            f"job asks -> {most} workers",
            lambda: self.has_workers(most),
            self.ask_head("POST", "/api/jobs/", job),
        )
        await self.reach("job ended, idle -> 0 workers", lambda: not self.workers())
        async with self.step("deleted -> nothing left"):
            await self.remove()
