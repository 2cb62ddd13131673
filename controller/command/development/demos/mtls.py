"""The demo of a cluster whose parts prove who they are, on real Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from controller.command.development.demos.stage import NAMESPACE, Demo
from controller.command.development.demos.view import pod_words, whole_cluster_words
from controller.command.kinds import KindSettings
from controller.kube.resources import PODS, SECRETS
from controller.ray.api import RAYCLUSTERS, FeatureGates
from controller.ray.api.feature_gates import MTLS
from controller.ray.api.labels import CERTIFICATE_END
from controller.ray.api.names import GCS_PORT, TLS_DIRECTORY, TLS_VARIABLES, TLS_VOLUME
from controller.ray.pods.tls import certificate_secret
from controller.ray.settings import MANTA

T = TypeVar("T")

_POLL: Final = 1.0
_JOB: Final = (
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
        submitted = await self.ask_head("POST", "/api/jobs/", {"entrypoint": _JOB})
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
