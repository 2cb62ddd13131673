"""RayJobs on a world: simulated Rays behind the heads, and submitters that do what theirs do."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from controller.apimachinery.conditions import rfc3339
from controller.kube.errors import AlreadyExists, NotFound, PathNotFound
from controller.kube.objects import KubeObject, Pod
from controller.kube.resources import CRDS, JOBS, PODS, SERVICES, Resource
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.definitions import ray_definition
from controller.ray.api.names import SUBMITTER
from controller.ray.api.pod_state import SUBMISSION_ID, container_with
from controller.ray.api.rayjob import RAYJOBS, RayJob
from controller.ray.cluster import RayClusterKind
from controller.ray.dashboard import Head
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.job import RayJobKind
from controller.ray.settings import RaySettings
from tests.integration.harness import RunningOperator, World, cluster_of, example_cluster, is_ready
from tests.ray.dashboard.simulated import Course, Incarnation, SimulatedRay


class RawPod(KubeObject, frozen=True):
    """A pod whose specification is plain data."""

    spec: Any = None


RAW_PODS = Resource("", "v1", "pods", "Pod", RawPod)


def job_manifest(name: str = "job", **spec: Any) -> dict[str, Any]:
    cluster = example_cluster()["spec"]
    cluster["workerGroupSpecs"] = cluster["workerGroupSpecs"][:1]
    cluster["workerGroupSpecs"][0] |= {"replicas": 1, "minReplicas": 1, "maxReplicas": 1}
    full = {
        "entrypoint": "python job.py",
        "submissionMode": "HTTPMode",
        "rayClusterSpec": cluster,
    } | spec
    if full["submissionMode"] == "K8sJobMode":
        full.setdefault("submitterPodTemplate", submitter())
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": {key: value for key, value in full.items() if value is not None},
    }


def submitter() -> dict[str, Any]:
    """A submitter's pod that runs until its part is played."""
    return {
        "metadata": {"annotations": {"sim.manta.dev/outcome": "run"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": SUBMITTER, "image": "rayproject/ray:2.52.0"}],
        },
    }


class Rays:
    """All Rays of a world, and who talks to them.

    Attributes:
        ray: the simulated dashboards; a head service leads to the ready head of its cluster.
        submitters_fail: whether the submitter of a job ends with an error as soon as it runs.
    """

    def __init__(self, world: World, settings: RaySettings | None = None) -> None:
        self.world = world
        self.settings = settings or RaySettings()
        epoch = world.wall() - timedelta(seconds=world.loop.time())
        self.ray = SimulatedRay(live=self._live, epoch=epoch)
        self.submitters_fail: Callable[[str], bool] = lambda _job_id: False
        self._submitted: set[str] = set()
        self._environments: dict[str, dict[str, str]] = {}  # by uid of the pod

    async def open(self) -> None:
        with contextlib.suppress(AlreadyExists):
            await self.world.user.create(CRDS, "", ray_definition("RayJob"))
        await self.world.eventually(self._served)
        self.world.background(self._play_submitters())

    def start_operator(
        self, *, clusters: RaySettings | None = None, **more: Any
    ) -> RunningOperator:
        actors = DashboardActors(
            self.ray.connect,
            clock=self.world.loop,
            wall=self.world.wall,
            rng=random.Random(self.world.rng.random()),
        )
        dashboards = actors.for_controller(RayJobKind.name)
        kinds = [RayClusterKind(clusters), RayJobKind(self.settings, dashboards, dashboards)]
        return self.world.start_operator(kinds=kinds, **more)

    @staticmethod
    def manifest(name: str = "job", **spec: Any) -> dict[str, Any]:
        return job_manifest(name, **spec)

    async def create(self, name: str = "job", **spec: Any) -> RayJob:
        return await self.world.user.create(
            RAYJOBS, self.world.namespace, job_manifest(name, **spec)
        )

    async def patch(self, name: str = "job", **spec: Any) -> None:
        await self.world.user.merge_patch(RAYJOBS, self.world.namespace, name, {"spec": spec})

    async def job(self, name: str = "job") -> RayJob:
        return await self.world.user.get(RAYJOBS, self.world.namespace, name)

    async def status(self, name: str = "job") -> dict[str, Any]:
        return (await self.job(name)).status

    async def state(self, name: str = "job") -> str:
        return (await self.status(name)).get("jobDeploymentStatus", "")

    async def reaches(
        self, state: str, name: str = "job", *, seconds: float = 120.0
    ) -> dict[str, Any]:
        async def reached() -> bool:
            return await self.state(name) == state

        try:
            await self.world.eventually(reached, seconds=seconds, pause=0.5)
        except AssertionError:
            status = await self.status(name)
            raise AssertionError(f"not {state} within {seconds} s: {status}") from None
        return await self.status(name)

    async def clusters(self) -> list[str]:
        found = await self.world.user.list(RAYCLUSTERS, self.world.namespace)
        return sorted(each.metadata.name for each in found.items)

    async def jobs_of_kubernetes(self) -> list[str]:
        found = await self.world.user.list(JOBS, self.world.namespace)
        return sorted(each.metadata.name for each in found.items)

    async def is_gone(self, name: str = "job") -> bool:
        try:
            await self.job(name)
        except NotFound:
            return True
        return False

    async def events(self, *awaited: str, name: str = "job") -> list[tuple[str, str]]:
        """Reasons and notes of the events about a RayJob, once all `awaited` are among them."""
        return await self.world.events_about("RayJob", name, *awaited)

    def heads(self) -> list[Pod]:
        return [pod for pod in self.world.journal.present.values() if _role(pod) == "head"]

    def head(self) -> Head:
        (pod,) = (pod for pod in self.heads() if not pod.metadata.terminating)
        return self.head_of(pod)

    def head_of(self, pod: Pod) -> Head:
        owner = pod.metadata.controller
        assert owner is not None
        return Head(
            owner.uid,
            pod.metadata.uid,
            _restarts(pod),
            self.world.namespace,
            f"{owner.name}-head-svc",
        )

    def _live(self, head: Head) -> Incarnation | None:
        for pod in self.heads():
            owner = pod.metadata.controller
            listens = is_ready(pod) or _sidecar_ended(pod)
            if owner is not None and owner.uid == head.cluster_uid and listens:
                return (owner.uid, pod.metadata.uid, _restarts(pod))
        return None

    async def _served(self) -> bool:
        try:
            await self.world.user.list(RAYJOBS, self.world.namespace, limit=1)
        except (NotFound, PathNotFound):
            return False
        return True

    async def _play_submitters(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            for pod in list(self.world.journal.present.values()):
                if pod.metadata.terminating or pod.status.phase != "Running":
                    continue
                if _role(pod) == "submitter":
                    await self._play(pod)
                elif _role(pod) == "head" and is_ready(pod):
                    await self._play_sidecar(pod)

    async def _play_sidecar(self, pod: Pod) -> None:
        """The same beside the head, where the container knows where Ray is."""
        if all(each.name != SUBMITTER for each in pod.spec.containers) or _sidecar_ended(pod):
            return
        env = await self._environment(pod)
        if not env:
            return
        head, job_id = self.head_of(pod), env["RAY_JOB_SUBMISSION_ID"]
        if self._submit(head, job_id):
            return
        job = self.ray.job(head, job_id)
        if job is None or job.status(self.ray.now()).terminal:
            await self._end_container(pod, 0)

    async def _end_container(self, pod: Pod, code: int) -> None:
        """As a kubelet tells of it: with a container that has ended, a pod is not ready."""
        if _sidecar_ended(pod):
            return
        world = self.world
        with contextlib.suppress(NotFound):
            raw = await world.user.get_raw(PODS, world.namespace, pod.metadata.name)
            reason = "Error" if code else "Completed"
            end = {"exitCode": code, "reason": reason, "finishedAt": rfc3339(world.wall())}
            for container in raw["status"]["containerStatuses"]:
                if container["name"] == submitting(pod):
                    container |= {"ready": False, "state": {"terminated": end}}
            for condition in raw["status"]["conditions"]:
                if condition["type"] in {"Ready", "ContainersReady"}:
                    condition |= {"status": "False", "reason": "ContainersNotReady"}
            keep = {key: raw["status"][key] for key in ("containerStatuses", "conditions")}
            await world.user.merge_patch(
                PODS, world.namespace, pod.metadata.name, {"status": keep}, subresource="status"
            )

    def _submit(self, head: Head, job_id: str) -> bool:
        """Submit what was not submitted before."""
        if self.ray.job(head, job_id) is not None or job_id in self._submitted:
            return False
        self._submitted.add(job_id)
        self.ray.add(head, job_id)
        return True

    async def _play(self, pod: Pod) -> None:
        """What the script of a submitter does: submit unless Ray has it, then follow its log."""
        env = await self._environment(pod)
        if not env:
            return
        job_id = env["RAY_JOB_SUBMISSION_ID"]
        cluster = await self._behind(env["RAY_DASHBOARD_ADDRESS"].partition(".")[0])
        place = next((p for p in self.heads() if cluster_of(p) == cluster and is_ready(p)), None)
        if self.submitters_fail(job_id):
            await self._end(pod, "crash")
            return
        if place is None:
            return
        head = self.head_of(place)
        if self._submit(head, job_id):
            return
        job = self.ray.job(head, job_id)
        if job is None or job.status(self.ray.now()).terminal:
            await self._end(pod, "succeed")

    async def _behind(self, service: str) -> str:
        try:
            found = await self.world.user.get(SERVICES, self.world.namespace, service)
        except NotFound:
            return ""
        return (found.spec.selector or {}).get("ray.io/cluster", "")

    async def _environment(self, pod: Pod) -> dict[str, str]:
        """Variables of the container that submits, read once; none if the pod is gone."""
        if pod.metadata.uid in self._environments:
            return self._environments[pod.metadata.uid]
        try:
            raw = await self.world.user.get(RAW_PODS, self.world.namespace, pod.metadata.name)
        except NotFound:
            return {}
        containers = {each["name"]: each for each in raw.spec["containers"]}
        entries = containers.get(SUBMITTER, raw.spec["containers"][0])["env"]
        env = {entry["name"]: entry.get("value", "") for entry in entries}
        self._environments[pod.metadata.uid] = env
        return env

    async def _end(self, pod: Pod, outcome: str) -> None:
        """End the pod, or only its submitter if others are in it."""
        if len(pod.spec.containers) > 1:
            await self._end_container(pod, 1 if outcome == "crash" else 0)
            return
        annotations = {"sim.manta.dev/outcome": outcome, "sim.manta.dev/fail-after": "0"}
        with contextlib.suppress(NotFound):
            await self.world.user.merge_patch(
                PODS,
                self.world.namespace,
                pod.metadata.name,
                {"metadata": {"annotations": annotations}},
            )


def forever() -> Course:
    return Course(running=float("inf"))


def _role(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get("ray.io/node-type", "")


def submitting(pod: Pod) -> str:
    """The name of the container that submits, whatever the user calls it."""
    found = container_with(pod.spec.containers, SUBMISSION_ID)
    return found.name if found is not None else ""


def _sidecar_ended(pod: Pod) -> bool:
    """Whether the submitter beside a head has done its work; Ray goes on."""
    statuses = pod.status.container_statuses
    return pod.status.phase == "Running" and any(
        each.name == submitting(pod) and each.state.terminated for each in statuses
    )


def _restarts(pod: Pod) -> int:
    statuses = pod.status.container_statuses
    return statuses[0].restart_count if statuses else 0
