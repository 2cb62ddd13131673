"""The demos of RayClusters: scaled by hand, by Ray's own autoscaler, and with certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from controller.apimachinery.custom_object import dig, mapping, mappings
from controller.command.kinds import KindSettings
from controller.kube.errors import ConfigurationError
from controller.kube.objects import Pod
from controller.kube.resources import PODS, SECRETS
from controller.ray.api import RAYCLUSTERS, FeatureGates
from controller.ray.api.feature_gates import MTLS
from controller.ray.api.labels import CERTIFICATE_END
from controller.ray.api.names import GCS_PORT, TLS_DIRECTORY, TLS_VARIABLES, TLS_VOLUME
from controller.ray.api.pod_state import is_head
from controller.ray.pods.features import certificate_secret
from controller.ray.settings import MANTA
from demos.stage import NAMESPACE, Demo
from demos.view import pod_state, pod_words, whole_cluster_words
from devcluster.apiserver import StoredEvent
from devcluster.nodes import NodeSettings

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
        self._most = 1 + more
        if self._made != self._most:
            self.wrong.append(f"{self._made} pods were created, {self._most} were asked for")

    def counts(self) -> Iterator[str]:
        """Yield the number of surplus pods."""
        if self._most:
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


# The demo of a cluster whose parts prove who they are, on real Ray.

T = TypeVar("T")

_POLL: Final = 1.0
_SQUARES: Final = (
    'python -c "import ray; ray.init(); '
    "print(sum(ray.get([ray.remote(num_cpus=1)(lambda i: i * i).remote(i) for i in range(20)])))"
    '"'
)


class MtlsDemo(Demo):
    """The operator issues the certificates of a cluster's processes.

    A job runs on a worker; a client with a certificate finds the head, and one without is refused.
    Then the certificates are issued anew, as before their end, and another job runs on the same
    pods.
    """

    words: ClassVar = {RAYCLUSTERS: whole_cluster_words, PODS: pod_words}
    seconds = 600.0

    def __init__(self, manifest: Path) -> None:
        super().__init__(manifest)
        self.object["spec"] |= {"tlsOptions": {"enabled": True}}

    def kind_settings(self) -> KindSettings:
        """Return settings by which the operator issues certificates."""
        return KindSettings.from_environment(FeatureGates({MTLS: True}), mtls_issuer=MANTA)

    async def play(self) -> None:
        """Run jobs and clients, before and after the certificates are issued anew."""
        await self.reach(
            "created -> ready", lambda: self.view.is_true(RAYCLUSTERS, "Ready"), self.create()
        )
        async with self.step("a job -> succeeded"):
            await self._run_job()
        for name, tls, wanted in (("member", True, "Succeeded"), ("stranger", False, "Failed")):
            async with self.step(f"a {name} asks -> {wanted.lower()}"):
                await self.user.create(PODS, NAMESPACE, self._client(name, tls=tls))
                phase = await _until(lambda name=name: self._phase(name), {"Succeeded", "Failed"})
                await self.user.delete(PODS, NAMESPACE, name)
            if phase != wanted:
                self.wrong.append(f"the head has answered a {name}: the pod {phase.lower()}")
        async with self.step("issued anew -> another job"):
            for part in ("head", "worker"):
                await self._renew(certificate_secret(self.name, part))
            await self._run_job()
        async with self.step("deleted -> nothing left"):
            await self.remove()
            await _until(self._has_secrets, {False})

    async def _run_job(self) -> None:
        submitted = await self.ask_head("POST", "/api/jobs/", {"entrypoint": _SQUARES})
        path = f"/api/jobs/{submitted['submission_id']}"

        async def status() -> str:
            return (await self.ask_head("GET", path))["status"]

        ended = await _until(status, {"SUCCEEDED", "FAILED", "STOPPED"})
        if ended != "SUCCEEDED":
            why = (await self.ask_head("GET", path))["message"]
            self.wrong.append(f"a job ended as {ended}: {why}")

    async def _renew(self, secret: str) -> None:
        """Let a certificate be near its end, and wait until it is issued anew."""

        async def is_same() -> bool:
            return await self._certificate(secret) == before

        before = await self._certificate(secret)
        soon = {"metadata": {"annotations": {CERTIFICATE_END: "2000-01-01T00:00:00Z"}}}
        await self.user.merge_patch(SECRETS, NAMESPACE, secret, soon)
        await _until(is_same, {False})

    async def _certificate(self, secret: str) -> str:
        return (await self.user.get_raw(SECRETS, NAMESPACE, secret))["data"]["tls.crt"]

    async def _has_secrets(self) -> bool:
        return bool((await self.user.list(SECRETS, NAMESPACE)).items)

    async def _phase(self, pod: str) -> str:
        return (await self.user.get(PODS, NAMESPACE, pod)).status.phase

    def _client(self, name: str, *, tls: bool) -> dict[str, Any]:
        """Return a pod that asks the head's GCS whether it is healthy."""
        cluster = self.view.one(RAYCLUSTERS)
        assert cluster is not None
        head = self.object["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
        container: dict[str, Any] = {
            "name": "client",
            "image": head["image"],
            "command": ["ray", "health-check", "--address"],
        }
        container["command"].append(f"{cluster.status['head']['podIP']}:{GCS_PORT}")
        spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
        if tls:
            secret = {"secretName": certificate_secret(self.name, "worker")}
            spec["volumes"] = [{"name": TLS_VOLUME, "secret": secret}]
            container["volumeMounts"] = [{"name": TLS_VOLUME, "mountPath": TLS_DIRECTORY}]
            container["env"] = [
                {"name": key, "value": value} for key, value in TLS_VARIABLES.items()
            ]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def _until(ask: Callable[[], Awaitable[T]], ends: set[T]) -> T:
    """Ask once a second until the answer is one of these."""
    while (found := await ask()) not in ends:  # noqa: ASYNC110  nothing tells of it
        await asyncio.sleep(_POLL)
    return found
